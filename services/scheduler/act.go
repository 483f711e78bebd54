package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/hostkv"
	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// acted says that a session was acted on, as its record stood at a revision.
type acted struct {
	t       *tracked
	rev     statekv.Revision
	verdict session.Verdict
	done    bool // the record was changed
}

// actor carries out what was decided. Its own goroutines do that; what they come to goes
// to the loop, which calls all methods that don't say otherwise.
type actor struct {
	name    string // in transitions and events
	records Records
	bus     Bus
	log     *slog.Logger
	points  *failpoint.Set
	asks    chan<- func(*loop)
	acted   chan acted
	orders  *hostkv.Cache

	acts    *acts
	waking  int // that are no suspends, under way
	telling int // events under way
}

func newActor(s *Scheduler) *actor {
	return &actor{
		name: s.Actor, records: s.Records, bus: s.Bus, log: s.Log, points: s.Failpoints, asks: s.asks, acted: make(chan acted), acts: newActs(), orders: s.Orders,
	}
}

// carryOut has a verdict recorded and the host woken.
func (a *actor) carryOut(ctx context.Context, t *tracked, d session.Decision) {
	t.acting = true
	n, rev := t.name(), t.rev
	a.acts.run(d.Verdict, func() {
		done := a.swap(ctx, n, rev, d)
		send(ctx, a.acted, acted{t, rev, d.Verdict, done})
	})
}

// swap makes the transition of a verdict and wakes the host; any goroutine may call it. It
// reads the record from the leader: the loop keeps only what deciding needs of it. A
// revision other than the one that was decided on, and a conflict, are no error: the new
// one is decided on when it comes. It reports whether the transition was made.
func (a *actor) swap(ctx context.Context, n schemas.Name, rev statekv.Revision, d session.Decision) bool {
	next, err := a.record(ctx, n, rev, d)
	switch {
	case errors.Is(err, statekv.ErrConflict), ctx.Err() != nil:
		return false
	case err != nil:
		a.log.Error("decision not recorded", "session", n.String(), "verdict", d.Verdict, "err", err)
		return false
	}
	a.log.Info(string(d.Verdict), next.Logged("reason", d.Reason)...)
	a.command(ctx, next)
	return true
}

func (a *actor) record(ctx context.Context, n schemas.Name, rev statekv.Revision, d session.Decision) (next statekv.Versioned, err error) {
	if err := a.points.At(ctx, failpoint.SchedulerDecided); err != nil {
		return next, err
	}
	rec, err := a.records.Get(ctx, n)
	if err != nil {
		return next, err
	}
	if rec.Rev != rev {
		return next, statekv.ErrConflict
	}
	t := transition(rec.SessionRecord, d)
	t.Actor = a.name
	if t.Type == schemas.TResume { // the fleet looks where it may go
		t.Set.Op.Unplaced = rec.Placement != nil || a.orders.Order(rec.Host).Cordoned
	}
	if next, err = a.records.Swap(ctx, rec, t); err != nil {
		return next, err
	}
	return next, a.points.At(ctx, failpoint.SchedulerRecorded)
}

// command wakes the host of a session.
func (a *actor) command(ctx context.Context, next statekv.Versioned) {
	err := a.bus.Command(ctx, next.SessionRecord)
	if err == nil {
		err = a.points.At(ctx, failpoint.SchedulerCommanded)
	}
	if err != nil && ctx.Err() == nil {
		a.log.Warn("command not published; the host's own watch finds the record", next.Logged("err", err)...)
	}
}

// announcer is a Bus that can publish events.
type announcer interface {
	Event(ctx context.Context, e schemas.Event) error
}

// tellAtOnce bounds the events under way: after a start very many may be due at once.
const tellAtOnce = 256

// mayTell reports whether an event can be published now.
func (a *actor) mayTell() bool {
	_, ok := a.bus.(announcer)
	return ok && a.telling < tellAtOnce
}

// tell publishes an event, if mayTell, and has the loop call done with what came of that.
func (a *actor) tell(ctx context.Context, e schemas.Event, done func(*loop, error)) {
	bus, ok := a.bus.(announcer)
	if !ok {
		return
	}
	e.Actor = a.name
	a.telling++
	a.acts.run(session.Notify, func() {
		err := bus.Event(ctx, e)
		if err != nil && ctx.Err() == nil {
			a.log.Warn("event not published", "session", schemas.Name{Tenant: e.Tenant, Session: e.Session}.String(), "event", e.Type, "err", err)
		}
		send(ctx, a.asks, func(l *loop) {
			a.telling--
			done(l, err)
		})
	})
}

// triggers are what the ops and images of suspends name in place of a reason for a pause.
var triggers = map[schemas.PauseReason]string{
	schemas.PauseInactivity: "idle", schemas.PauseExpired: "expired", schemas.PausePressure: "pressure", schemas.PauseQuota: "pressure",
}

func transition(r schemas.SessionRecord, d session.Decision) schemas.Transition {
	now := time.Now()
	if d.Fresh != "" && session.Fresh(r, session.Policy{OnResume: schemas.ResumeFresh}) == d.Fresh {
		t := session.FreshStart(r, d.Fresh, d.Evidence.Seq, now)
		t.Reason, t.Evidence = d.Reason, &d.Evidence
		return t
	}
	op := schemas.NewOp(schemas.OpResume, d.Evidence.Seq, now)
	t := schemas.Transition{Reason: d.Reason, Evidence: &d.Evidence, Op: op.ID, Set: schemas.Set{Op: op}}
	if d.Verdict == session.Suspend {
		t.Type = schemas.TSuspend
		op.Kind, op.Idle, op.Trigger = schemas.OpSuspend, true, triggers[d.Pause]
		t.Set.Pause = &schemas.Pause{Reason: d.Pause, At: now.UTC()}
		return t
	}
	t.Type = schemas.TResume
	op.Source, op.Boot = r.Head, session.BootOf(r)
	return t
}

// actorsAtOnce bounds the swaps of one kind under way at one time: a wake never waits
// for suspends.
const actorsAtOnce = 16

// acts runs what was decided.
type acts struct {
	suspends chan struct{} // a token for each under way
	wg       sync.WaitGroup
}

func newActs() *acts { return &acts{suspends: make(chan struct{}, actorsAtOnce)} }

func (a *acts) run(v session.Verdict, fn func()) {
	a.wg.Go(func() {
		if v == session.Suspend {
			a.suspends <- struct{}{}
			defer func() { <-a.suspends }()
		}
		fn()
	})
}

func (a *acts) wait() { a.wg.Wait() }
