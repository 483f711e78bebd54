package power_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/natsconn"
	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/embedded"
)

// limit bounds each wait: it is only reached when something is broken.
const limit = 2 * time.Minute

const writers = 8

var names = stream.NamesWith("")

// acknowledged is what clients were told is stored.
type acknowledged struct {
	mu       sync.Mutex
	ids      map[string]bool         // of transitions
	activity map[schemas.Name]uint64 // the last of each session
}

// No transition and no activity that was acknowledged is missing after a power
// failure, wherever in their work it met the server; and it goes on from there,
// again and again.
func TestPowerFailure(t *testing.T) {
	rounds := 3
	if os.Getenv("DIAPAUSE_LONG") != "" {
		rounds = 40
	}
	acked := &acknowledged{ids: map[string]bool{}, activity: map[schemas.Name]uint64{}}
	d := newDisk(t)
	for range rounds {
		after := len(acked.ids) + 50 + rand.IntN(400)
		file := cut(t, d, acked, after)
		d = mounted(t, file)
		if missing := acked.missing(t, d.mount); len(missing) > 0 {
			t.Fatalf("after a power failure %d of %d acknowledged writes are missing: %v", len(missing), len(acked.ids), missing[:min(5, len(missing))])
		}
	}
}

// The same with a server that acknowledges before it syncs loses what was
// acknowledged: the test would notice.
func TestWithoutSyncSomethingIsMissing(t *testing.T) {
	acked := &acknowledged{ids: map[string]bool{}, activity: map[schemas.Name]uint64{}}
	d := newDisk(t)
	file := cut(t, d, acked, 200, withoutSync+"=1")
	d = mounted(t, file)
	if missing := acked.missing(t, d.mount, withoutSync+"=1"); len(missing) == 0 {
		t.Errorf("none of %d acknowledged writes is missing though nothing was synced", len(acked.ids))
	}
}

// cut lets clients write to a server until so many transitions are acknowledged,
// and gives the disk as the failing power left it.
func cut(t *testing.T, d disk, acked *acknowledged, after int, env ...string) string {
	t.Helper()
	p := startServer(t, d.mount, env...)
	js, records := p.open(t, d.mount)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var working sync.WaitGroup
	enough := make(chan struct{})
	failed := make(chan error, writers)
	for i := range writers {
		n := schemas.Name{Tenant: "acme", Session: schemas.SessionID(fmt.Sprint("s", i))}
		working.Go(func() {
			if err := acked.write(ctx, js, records, n, after, enough); err != nil && ctx.Err() == nil {
				failed <- err
			}
		})
	}
	select {
	case <-enough:
	case err := <-failed:
		t.Fatal(err)
	case <-time.After(limit):
		t.Fatalf("%d writes are not acknowledged within %s", after, limit)
	}
	p.stop(t)
	file := d.copy(t)
	stop()
	working.Wait()
	js.Conn().Close()
	p.kill()
	return file
}

// write makes one session's transitions, one after another, and activity between
// them.
func (a *acknowledged) write(ctx context.Context, js jetstream.JetStream, records *statekv.Store, n schemas.Name, after int, enough chan struct{}) error {
	for ctx.Err() == nil {
		v, err := records.Update(ctx, n, func(r schemas.SessionRecord) (schemas.Transition, bool, error) { return next(r, n), true, nil })
		if err != nil {
			return err
		}
		seq, err := (stream.Publisher{JS: js}).Activity(ctx, n, schemas.KindInput, "", schemas.Activity{})
		a.mu.Lock()
		if a.ids[v.Transition.ID] = true; len(a.ids) == after {
			close(enough)
		}
		if err == nil {
			a.activity[n] = seq
		}
		a.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// next is a transition that the record allows, of a session that is on no host.
func next(r schemas.SessionRecord, n schemas.Name) schemas.Transition {
	t := schemas.Transition{Actor: "test", Reason: "a test of power failures"}
	if r.State == "" {
		t.Type = schemas.TRun
		t.Set = schemas.Set{
			New:  &schemas.NewSession{UID: schemas.UID("u" + n.Session), Tenant: n.Tenant, Session: n.Session, Class: "web", Driver: "fake", Lineage: "l"},
			Host: "nowhere", Op: &schemas.Op{ID: "o", Kind: schemas.OpStart},
		}
		return t
	}
	t.Type, t.Set.Idle = schemas.TIdleRule, &schemas.Idle{Grace: int64(r.Version)}
	return t
}

// open connects to the server and finds, or makes, the streams.
func (p *process) open(t *testing.T, dir string) (jetstream.JetStream, *statekv.Store) {
	t.Helper()
	creds := embedded.CredsFile(filepath.Join(dir, "creds"), embedded.UserSystem)
	var nc *nats.Conn
	var err error
	if _, statErr := os.Stat(creds); statErr == nil {
		nc, err = natsconn.Connect(t.Context(), p.url, creds, "test")
	} else {
		nc, err = nats.Connect(p.url)
	}
	must(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	must(t, err)
	must(t, stream.Ensure(t.Context(), js, names, 1))
	records, err := statekv.Open(t.Context(), js, names)
	must(t, err)
	return js, records
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// missing starts a server on what the power failure left, and says what was
// acknowledged and isn't there. The log that is there must be whole.
func (a *acknowledged) missing(t *testing.T, dir string, env ...string) (out []string) {
	t.Helper()
	p := startServer(t, dir, env...)
	js, records := p.open(t, dir)
	defer p.kill()
	defer js.Conn().Close()
	there, last := map[string]bool{}, map[schemas.Name]schemas.SessionRecord{}
	must(t, records.Log(t.Context(), func(v statekv.Versioned) error {
		next, err := session.Apply(last[v.Name()], v.Transition)
		if err != nil || next.Version != v.Version {
			return errors.Join(err, fmt.Errorf("version %d of %s follows version %d", v.Version, v.Name(), next.Version-1))
		}
		there[v.Transition.ID], last[v.Name()] = true, v.SessionRecord
		return nil
	}))
	for id := range a.ids {
		if !there[id] {
			out = append(out, "transition "+id)
		}
	}
	for n, seq := range a.activity {
		got, err := stream.Since(t.Context(), js, names, n, seq-1)
		must(t, err)
		if len(got) == 0 {
			out = append(out, fmt.Sprintf("activity %d of %s", seq, n))
		}
	}
	return out
}
