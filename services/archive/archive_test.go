package archive

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/segment"
	"github.com/diapause/diapause/schemas"
)

// atOnce has everything due that may be.
func atOnce() Policy { return Policy{Age: 1, Count: 2, Removed: 1} }

// A session's old revisions are moved and its history has no seam; a session that was removed
// leaves NATS, and one that sleeps stays.
func TestPass(t *testing.T) {
	b := onNATS(t, atOnce())
	busy := b.checkpoints(b.run("busy", "u1"), 5)
	b.run("sleeps", "u2")
	b.remove(b.run("gone", "u3"))
	before := map[string][]string{}
	for _, id := range []string{"busy", "sleeps", "gone"} {
		before[id] = b.inNATS(id)
	}
	if dry, err := b.Pass(b.ctx, true); err != nil || dry.Revisions != 14 || dry.Head.End.Number != 0 {
		t.Errorf("a dry run: %+v, %v", dry, err)
	}
	out := b.moved()
	if out.Segments != 1 || out.Revisions != 14 || out.Sessions != 1 || out.Head.End.Number != 1 || out.Head.Pending {
		t.Errorf("moved: %+v", out)
	}
	b.same("busy in NATS", b.inNATS("busy"), before["busy"][10:])
	b.same("sleeps in NATS", b.inNATS("sleeps"), before["sleeps"])
	b.same("gone in NATS", b.inNATS("gone"), nil)
	for id, want := range before {
		b.same(id, b.history(id), want)
		b.same("all of "+id, b.whole(time.Time{})[name(id)], want)
	}
	if out := b.moved(); out.Revisions != 0 || out.Segments != 0 {
		t.Errorf("again: %+v", out)
	}
	b.checkpoints(busy, 1)
	if out := b.moved(); out.Revisions != 2 || out.Head.End.Number != 2 {
		t.Errorf("two revisions later: %+v", out)
	}
	if got := b.history("busy"); len(got) != 14 {
		t.Errorf("the history has %d revisions: %q", len(got), got)
	}
	if c, err := b.reader.Check(b.ctx, true); err != nil || c.Segments != 2 || len(c.Problems)+len(c.Unknown)+len(c.Foreign) > 0 {
		t.Errorf("check: %+v, %v", c, err)
	}
}

// A process that ends at any step leaves everything readable, and the next one completes it:
// nothing is lost, and nothing is moved twice.
func TestEndsAtEachStep(t *testing.T) {
	for _, step := range []string{"written", "compared", "recorded", "purging", "purged"} {
		t.Run(step, func(t *testing.T) {
			b := onNATS(t, atOnce())
			b.checkpoints(b.run("a", "u1"), 4)
			b.remove(b.run("b", "u2"))
			want := b.whole(time.Time{})
			killed := errors.New("killed")
			b.steps = func(at string) error {
				if at == step {
					return killed
				}
				return nil
			}
			if _, err := b.Pass(b.ctx, false); !errors.Is(err, killed) {
				t.Fatalf("it isn't killed: %v", err)
			}
			for n, lines := range want {
				b.same("before", b.whole(time.Time{})[n], lines)
			}
			b.Archive = b.archive(atOnce()) // another process
			out := b.moved()
			if out.Head.End.Number != 1 || out.Head.Pending {
				t.Errorf("completed: %+v", out.Head)
			}
			for n, lines := range want {
				b.same("after", b.whole(time.Time{})[n], lines)
			}
			if names, _, err := segment.List(b.ctx, b.store, 0); err != nil || len(names) != 1 {
				t.Errorf("segments: %q, %v", names, err)
			}
			if got := b.inNATS("a"); len(got) != 2 {
				t.Errorf("in NATS there is %q", got)
			}
		})
	}
}

// Several archives at once do no harm.
func TestSeveralAtOnce(t *testing.T) {
	b := onNATS(t, atOnce())
	v := b.run("a", "u1")
	var all sync.WaitGroup
	for range 3 {
		a := b.archive(atOnce())
		all.Go(func() {
			for range 10 {
				if _, err := a.Pass(b.ctx, false); err != nil && !errors.Is(err, ErrMoved) {
					t.Error(err)
				}
			}
		})
	}
	for range 20 {
		v = b.checkpoints(v, 1)
	}
	all.Wait()
	b.moved()
	got := b.history("a")
	if len(got) != 42 || len(slices.Compact(slices.Clone(got))) != 42 {
		t.Errorf("%d revisions: %q", len(got), got)
	}
	c, err := b.reader.Check(b.ctx, true)
	if err != nil || len(c.Problems)+len(c.Unknown) > 0 || c.Segments == 0 {
		t.Errorf("check: %+v, %v", c, err)
	}
}

// A name that is used again keeps its two lives apart: before and after all of the first has
// left NATS.
func TestNameIsUsedAgain(t *testing.T) {
	b := onNATS(t, Policy{Age: 1, Count: 2, Removed: time.Hour})
	b.remove(b.run("a", "u1"))
	b.checkpoints(b.run("a", "u2"), 2)
	b.moved()
	if got := b.history("a"); len(got) != 10 || !strings.HasPrefix(got[0], "u1 1 ") || !strings.HasPrefix(got[9], "u2 10 ") {
		t.Errorf("history: %q", got)
	}
	b.remove(b.run("c", "u3"))
	b.Archive = b.archive(atOnce())
	b.moved()
	if got := b.inNATS("c"); got != nil {
		t.Fatalf("it is still there: %q", got)
	}
	b.run("c", "u4")
	if got := b.history("c"); len(got) != 2 || !strings.HasPrefix(got[0], "u4 1 ") {
		t.Errorf("the second life: %q", got)
	}
	if got := b.whole(time.Time{})[name("c")]; len(got) != 6 || !strings.HasPrefix(got[0], "u3 1 ") || !strings.HasPrefix(got[4], "u4 1 ") {
		t.Errorf("both: %q", got)
	}
}

// While a host is away, or of an earlier version, the last revision of a removed session stays.
func TestForget(t *testing.T) {
	b := onNATS(t, atOnce())
	b.remove(b.run("a", "u1"))
	all := false
	b.Forget = func(context.Context) (bool, error) { return all, nil }
	if out := b.moved(); out.Revisions != 3 || out.Sessions != 0 || len(b.inNATS("a")) != 1 {
		t.Errorf("with a host away: %+v, %q", out, b.inNATS("a"))
	}
	all = true
	if out := b.moved(); out.Revisions != 1 || out.Sessions != 1 || len(b.inNATS("a")) != 0 || len(b.history("a")) != 4 {
		t.Errorf("with all hosts: %+v, %q", out, b.inNATS("a"))
	}
}

// away is a store that answers nothing, for a while.
type away struct {
	objectstore.Store
	err error
}

func (a *away) List(ctx context.Context, prefix string, fn func(objectstore.Info) error) error {
	if a.err != nil {
		return a.err
	}
	return a.Store.List(ctx, prefix, fn)
}

// A store that is away postpones, and nothing else.
func TestStoreIsAway(t *testing.T) {
	b := onNATS(t, atOnce())
	b.checkpoints(b.run("a", "u1"), 4)
	want := b.inNATS("a")
	a := &away{b.store, errors.New("no route to host")}
	b.Archive.Store = a
	if _, err := b.Pass(b.ctx, false); err == nil {
		t.Error("it passes without a store")
	}
	b.same("without a store", b.inNATS("a"), want)
	a.err = nil
	b.moved()
	b.same("with one", b.history("a"), want)
}

// What can't be read of a segment is a gap, by name.
func TestGap(t *testing.T) {
	b := onNATS(t, atOnce())
	v := b.checkpoints(b.run("a", "u1"), 2)
	first := b.moved().Head.End
	v = b.checkpoints(v, 2)
	second := b.moved().Head.End
	b.checkpoints(v, 2)
	b.moved()
	b.must(b.store.Delete(b.ctx, second.Name))
	all, gaps, err := b.reader.History(b.ctx, name("a"))
	if err != nil || len(gaps) != 1 || !strings.Contains(gaps[0].String(), "acme/a: versions 1 to 8 are missing") || !strings.Contains(gaps[0].Why, "numbers 1 to 1") || len(all) != 6 {
		t.Errorf("without the second: %q, %v, %v", lines(all), gaps, err)
	}
	c, err := b.reader.Check(b.ctx, false)
	if err != nil || len(c.Problems) != 1 || !slices.Contains(c.Unknown, first.Name) {
		t.Errorf("check: %+v, %v", c, err)
	}
	other, err := age.GenerateX25519Identity()
	b.must(err)
	b.reader.Identities = []age.Identity{other}
	if _, gaps, err := b.reader.History(b.ctx, name("a")); err != nil || len(gaps) != 1 || !strings.Contains(gaps[0].Why, b.key.Recipient().String()) {
		t.Errorf("with another key: %v, %v", gaps, err)
	}
}

// Another key than the fleet's leaves the log alone.
func TestOtherKey(t *testing.T) {
	b := onNATS(t, atOnce())
	v := b.checkpoints(b.run("a", "u1"), 2)
	b.moved()
	b.checkpoints(v, 2)
	other, err := age.GenerateX25519Identity()
	b.must(err)
	b.Key = other
	if out := b.pass(); out.Revisions != 0 || len(out.Problems) != 1 || !strings.Contains(out.Problems[0], "keys/log.txt") {
		t.Errorf("it moves: %+v", out)
	}
}

// NATS is another one, whose entries begin with 1 again: those of before are reported and not
// mixed up with them.
func TestLogIsAnother(t *testing.T) {
	b := onNATS(t, atOnce())
	b.checkpoints(b.run("a", "u1"), 4)
	b.moved()
	js := natstest.Streams(t)
	records, err := statekv.Open(t.Context(), js, stream.NamesWith(""))
	b.must(err)
	b.heads, err = OpenHeads(t.Context(), js, stream.NamesWith(""))
	b.must(err)
	b.log = records
	b.Archive = b.archive(atOnce())
	b.reader = b.read()
	v := b.checkpoints(b.run("a", "u2"), 2)
	out := b.pass()
	if out.Revisions != 4 || out.Head.End.Number != 2 || len(out.Problems) != 1 || !strings.Contains(out.Problems[0], "earlier log") {
		t.Errorf("moved: %+v", out)
	}
	b.checkpoints(v, 2)
	if out := b.pass(); out.Head.End.Number != 3 || len(out.Head.Forks) != 1 {
		t.Errorf("again: %+v", out)
	}
	if got := b.history("a"); len(got) != 10 || !strings.HasPrefix(got[0], "u2 1 ") {
		t.Errorf("history: %q", got)
	}
}

// A server's clock that jumps ahead makes nothing due.
func TestClock(t *testing.T) {
	var c clock
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if got := c.now(at); !got.Equal(at) {
		t.Errorf("first it is %s", got)
	}
	if got := c.now(at.Add(365 * day)); got.After(at.Add(time.Hour)) {
		t.Errorf("after a jump it is %s", got)
	}
	if got := c.now(at.Add(time.Second)); !got.Equal(at.Add(time.Second)) {
		t.Errorf("after the jump back it is %s", got)
	}
}

// The newest revision of a session that isn't removed is never purged.
func TestPurgeNewest(t *testing.T) {
	b := onNATS(t, atOnce())
	v := b.run("a", "u1")
	for _, removed := range []bool{false, true} {
		if err := b.log.Purge(b.ctx, name("a"), v.Rev, removed); !errors.Is(err, statekv.ErrNewest) {
			t.Errorf("removed %v: %v", removed, err)
		}
	}
	b.remove(v)
	last, err := b.log.Get(b.ctx, name("a"))
	b.must(err)
	if err := b.log.Purge(b.ctx, name("a"), last.Rev, false); !errors.Is(err, statekv.ErrNewest) {
		t.Errorf("a removed one: %v", err)
	}
	b.must(b.log.Purge(b.ctx, name("a"), last.Rev, true))
	b.must(b.log.Purge(b.ctx, name("a"), last.Rev, true))
	// A writer that had read what was purged is refused, and isn't left waiting for an answer.
	if _, err := b.log.Swap(b.ctx, last, schemas.Transition{Type: schemas.TRun, Set: schemas.Set{New: &schemas.NewSession{UID: "u2", Tenant: "acme", Session: "a"}, Host: "h"}}); !errors.Is(err, statekv.ErrConflict) {
		t.Errorf("a swap of what was purged: %v", err)
	}
	b.run("a", "u2")
}
