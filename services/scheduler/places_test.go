package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/scheduler"
)

// host says that there is a host, with room for so many.
func (b *bench) host(slots int) {
	b.t.Helper()
	kv, err := b.js.KeyValue(b.ctx, stream.NamesWith("").Hosts())
	b.must(err)
	_, err = kv.Put(b.ctx, "h", fmt.Appendf(nil, `{"host":"h","slots":%d}`, slots))
	b.must(err)
}

// taken makes a session on the host, whose place was asked for.
func (b *bench) taken(n schemas.Name) statekv.Versioned {
	b.t.Helper()
	return b.change(n, schemas.Transition{Type: schemas.TRun, Set: schemas.Set{
		Host: "h", Op: &schemas.Op{ID: string(n.Session), Kind: schemas.OpStart},
		New: &schemas.NewSession{UID: schemas.UID("u" + n.Session), Tenant: n.Tenant, Session: n.Session, Class: "web", Lineage: "l"},
	}})
}

// Two who give the places of one host, each by what it has read itself, give none twice: those
// that are asked for at once, nor those whose session the other hasn't read of yet.
func TestTwoGiveNoPlaceTwice(t *testing.T) {
	b := newBench(t)
	const slots, rounds, atOnce = 5, 4, 4
	b.host(slots)
	all := []another{b.beside("first", nil), b.beside("second", nil)}
	given := 0
	for round := range rounds {
		type answer struct {
			n       schemas.Name
			release func(statekv.Revision)
			err     error
		}
		answers := make(chan answer, atOnce)
		for i := range atOnce {
			n := schemas.Name{Tenant: "acme", Session: schemas.SessionID(fmt.Sprintf("s%d-%d", round, i))}
			go func() {
				_, release, err := all[i%len(all)].MakeRoom(b.ctx, "h", n)
				answers <- answer{n, release, err}
			}()
		}
		var got []answer
		for range atOnce {
			got = append(got, <-answers) // within the time that the bench has
		}
		for _, a := range got { // only now: none has read of the others' sessions
			var none *scheduler.NoRoom
			if a.err == nil {
				given++
				a.release(b.taken(a.n).Rev)
			} else if !errors.As(a.err, &none) {
				t.Error(a.err)
			}
		}
	}
	if given != slots {
		t.Errorf("%d places were given on a host with room for %d", given, slots)
	}
}

// One that made its place and is gone counts no longer, for all, and what comes
// later knows of the others.
func TestWhoComesLaterKnowsOfPlaces(t *testing.T) {
	b := newBench(t)
	b.host(1)
	first := b.beside("first", nil)
	_, release, err := first.MakeRoom(b.ctx, "h", work)
	b.must(err)
	second := b.beside("second", nil)
	var none *scheduler.NoRoom
	if _, _, err := second.MakeRoom(b.ctx, "h", schemas.Name{Tenant: "acme", Session: "other"}); !errors.As(err, &none) {
		t.Fatalf("the only place is promised, and given again: %v", err)
	}
	release(statekv.Revision{})
	for deadline := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) { // he is told a moment later
		_, again, err := second.MakeRoom(b.ctx, "h", schemas.Name{Tenant: "acme", Session: "other"})
		if err == nil {
			again(statekv.Revision{})
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// Where what makes the streams is older there is nothing to agree by: each gives places as
// it knows, and says so.
func TestPlacesWithoutABucket(t *testing.T) {
	b := newBench(t)
	b.must(b.js.DeleteStream(b.ctx, "KV_"+stream.NamesWith("").Places()))
	if _, err := b.js.Stream(b.ctx, "KV_"+stream.NamesWith("").Places()); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Fatal(err)
	}
	b.host(1)
	one := b.beside("one", nil)
	_, release, err := one.MakeRoom(b.ctx, "h", work)
	b.must(err)
	if _, _, err := one.MakeRoom(b.ctx, "h", schemas.Name{Tenant: "acme", Session: "other"}); err == nil {
		t.Error("the place is given twice by one alone")
	}
	release(statekv.Revision{})
	if b.logged.with("the same place of a host") != 1 {
		t.Error("it isn't logged")
	}
}

// unsure are places that can't be followed at first, as of a bucket without a leader.
type unsure struct {
	*bench
	fails atomic.Int32
}

func (u *unsure) Place(ctx context.Context, p schemas.Place) error {
	return stream.Publisher{JS: u.js}.Place(ctx, stream.NamesWith(""), p)
}

func (u *unsure) Places(ctx context.Context, fn func(schemas.Place)) error {
	if u.fails.Add(-1) >= 0 {
		return context.DeadlineExceeded
	}
	return stream.Places(ctx, u.js, stream.NamesWith(""), fn)
}

// What can't be read of places for a moment is waited for by who asks for one: deciding goes on.
func TestPlacesThatCantBeFollowedAtFirst(t *testing.T) {
	b := newBench(t)
	b.host(1)
	places := &unsure{bench: b}
	places.fails.Store(2)
	one := b.besideOf(scheduler.Options{Actor: "one", Places: places})
	_, release, err := one.MakeRoom(b.ctx, "h", work)
	b.must(err)
	release(statekv.Revision{})
	if n := b.logged.with("can't be followed"); n != 1 {
		t.Errorf("it was said %d times", n)
	}
}
