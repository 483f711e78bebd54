package drain

import (
	"context"
	"testing"
	"time"

	"github.com/diapause/diapause/events/hostkv"
	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/fleet"
	"github.com/diapause/diapause/services/scheduler"
)

// stand is a fleet of two hosts and a scheduler, which say what the test has them say.
type stand struct {
	records []statekv.Versioned
	use     map[schemas.Name]scheduler.Use
	taken   []schemas.Name // for which a slot was reserved
}

func (s *stand) Hosts(context.Context) ([]fleet.Host, error) {
	of := func(h schemas.HostID) fleet.Host {
		return fleet.Host{Host: schemas.Host{Host: h, Knows: schemas.Features(), Fingerprints: []schemas.Fingerprint{{Driver: "fake"}}}}
	}
	return []fleet.Host{of("a"), of("b")}, nil
}

func (s *stand) Place(ctx context.Context, w fleet.Want) (schemas.HostID, schemas.Fingerprint, error) {
	hosts, err := s.Hosts(ctx)
	if err != nil {
		return "", schemas.Fingerprint{}, err
	}
	return fleet.Choose(hosts, w)
}

func (s *stand) Busy(yield func(statekv.Versioned) bool) {
	for _, v := range s.records {
		if !yield(v) {
			return
		}
	}
}

func (s *stand) InUse(context.Context, []schemas.Name) (map[schemas.Name]scheduler.Use, error) {
	return s.use, nil
}

func (s *stand) Gone(schemas.HostID) (time.Time, bool) { return time.Time{}, false }

func (s *stand) HasRoom(context.Context, schemas.HostID) (bool, error) { return true, nil }

func (s *stand) MakeRoom(_ context.Context, _ schemas.HostID, who schemas.Name) ([]schemas.Name, func(statekv.Revision), error) {
	s.taken = append(s.taken, who)
	return nil, func(statekv.Revision) {}, nil
}

// bench has one session on host a, which is drained.
type bench struct {
	*stand
	t       *testing.T
	name    schemas.Name
	drainer *Drainer
}

func newBench(t *testing.T) *bench {
	t.Helper()
	js, names := natstest.Streams(t), stream.NamesWith("")
	records, err := statekv.Open(t.Context(), js, names)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{stand: &stand{use: map[schemas.Name]scheduler.Use{}}, t: t, name: schemas.Name{Tenant: "default", Session: "s"}}
	b.drainer = New(Options{
		JS: js, Names: names, Records: records, Orders: hostkv.NewCache(js, names, nil), Fleet: b, Scheduler: b, Actor: "drain@test",
	})
	b.change(schemas.Transition{Type: schemas.TRun, Set: schemas.Set{Host: "a", Op: &schemas.Op{Kind: schemas.OpStart}, New: &schemas.NewSession{
		UID: "u", Tenant: b.name.Tenant, Session: b.name.Session, Class: "web", Driver: "fake", Lineage: "u",
	}}})
	b.change(schemas.Transition{Type: schemas.TStarted})
	return b
}

func (b *bench) change(t schemas.Transition) statekv.Versioned {
	b.t.Helper()
	v, err := b.drainer.Records.Update(b.t.Context(), b.name, func(schemas.SessionRecord) (schemas.Transition, bool, error) { return t, true, nil })
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

// known has the fleet and the scheduler know of the session as it is now.
func (b *bench) known(u scheduler.Use) {
	b.t.Helper()
	v := b.now()
	u.Rev = v.Rev
	b.records, b.use[b.name] = []statekv.Versioned{v}, u
}

func (b *bench) now() statekv.Versioned {
	b.t.Helper()
	v, err := b.drainer.Records.Get(b.t.Context(), b.name)
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

func (b *bench) pass(force bool) statekv.Versioned {
	b.t.Helper()
	if err := b.drainer.pass(b.t.Context(), schemas.HostOrder{Host: "a", Draining: true, Force: force, By: "ann"}); err != nil {
		b.t.Fatal(err)
	}
	return b.now()
}

// What isn't in use is suspended, such that use which wasn't heard yet undoes that.
func TestIdleIsSuspended(t *testing.T) {
	b := newBench(t)
	b.known(scheduler.Use{Seq: 5})
	v := b.pass(false)
	if v.State != schemas.Suspending || !v.Op.Idle || v.Op.Seq != 5 || v.Op.Move != nil || v.Pause.Reason != schemas.PauseDrain || v.Transition.Actor != "drain@test" {
		t.Errorf("%s, op %+v, pause %+v by %s", v.State, v.Op, v.Pause, v.Transition.Actor)
	}
}

// A session that slept when the pass read it, and was woken before its turn, is left alone: so is
// all that has changed since.
func TestWhatWokeSinceIsLeftAlone(t *testing.T) {
	b := newBench(t)
	b.known(scheduler.Use{})
	b.change(schemas.Transition{Type: schemas.TSuspend, Set: schemas.Set{Op: &schemas.Op{ID: "x", Kind: schemas.OpSuspend}}})
	b.change(schemas.Transition{Type: schemas.TSuspended, Set: schemas.Set{Head: &schemas.Head{Name: "default/u/1-1"}}})
	b.change(schemas.Transition{Type: schemas.TReaped})
	asleep := b.now()
	b.change(schemas.Transition{Type: schemas.TResume, Set: schemas.Set{Op: &schemas.Op{ID: "y", Kind: schemas.OpResume}}})
	woken := b.change(schemas.Transition{Type: schemas.TResumed})
	if v := b.pass(true); v.Rev != woken.Rev { // decided on the record of before it slept
		t.Errorf("it is %s by %s", v.State, v.Transition.Reason)
	}
	b.records = []statekv.Versioned{asleep}
	if v := b.pass(true); v.Rev != woken.Rev {
		t.Errorf("it is %s by %s", v.State, v.Transition.Reason)
	}
	b.records = []statekv.Versioned{woken}
	if v := b.pass(false); v.Rev != woken.Rev { // its use was heard of the record of before
		t.Errorf("it is %s by %s", v.State, v.Transition.Reason)
	}
}

// What is in use moves only if that is forced, with a slot that is reserved there.
func TestUseMovesIfForced(t *testing.T) {
	b := newBench(t)
	b.known(scheduler.Use{What: "input"})
	if v := b.pass(false); v.State != schemas.Running {
		t.Fatalf("it is %s without force", v.State)
	}
	v := b.pass(true)
	if v.State != schemas.Suspending || v.Op.Idle || v.Op.Move == nil || v.Op.Move.To != "b" || v.Op.Move.From != "a" || len(b.taken) != 1 {
		t.Errorf("%s, op %+v, slots for %v", v.State, v.Op, b.taken)
	}
}
