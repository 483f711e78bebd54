package drain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/hostkv"
	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/fleet"
	"github.com/diapause/diapause/services/scheduler"
)

// Fleet knows the hosts, and which sessions run. *fleet.Fleet is one.
type Fleet interface {
	Hosts(ctx context.Context) ([]fleet.Host, error)
	Place(ctx context.Context, w fleet.Want) (schemas.HostID, schemas.Fingerprint, error)
	Busy(yield func(statekv.Versioned) bool)
	Gone(h schemas.HostID) (since time.Time, gone bool)
}

// Scheduler knows how sessions are used, and what hosts have room for. *scheduler.Scheduler is one.
type Scheduler interface {
	InUse(ctx context.Context, names []schemas.Name) (map[schemas.Name]scheduler.Use, error)
	HasRoom(ctx context.Context, h schemas.HostID) (bool, error)
	MakeRoom(ctx context.Context, h schemas.HostID, who schemas.Name) (suspended []schemas.Name, release func(taken statekv.Revision), err error)
}

var (
	_ Fleet     = (*fleet.Fleet)(nil)
	_ Scheduler = (*scheduler.Scheduler)(nil)
)

// Options is what a drainer is made of. All fields are needed but Log.
type Options struct {
	JS        jetstream.JetStream
	Names     stream.Names
	Records   *statekv.Store
	Orders    *hostkv.Cache
	Fleet     Fleet
	Scheduler Scheduler
	Actor     string // in the transitions that it makes: "drain@host"
	Log       *slog.Logger
}

// Drainer drains the hosts of which that is ordered; Serve runs it.
type Drainer struct {
	Options
	publish stream.Publisher
}

// New makes a drainer.
func New(o Options) *Drainer {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Drainer{Options: o, publish: stream.Publisher{JS: o.JS}}
}

// passEvery is the pause between two passes over a host, atOnce how many suspends and moves of
// one host go on at a time: each session stands still for as long as all of them take.
const (
	passEvery = time.Second
	atOnce    = 8
)

// Serve drains until ctx ends.
func (d *Drainer) Serve(ctx context.Context) error {
	tick := time.NewTicker(passEvery)
	defer tick.Stop()
	for {
		changed := d.Orders.Changed()
		var again <-chan time.Time // nil while no host is drained: then nothing wakes this process
		for _, o := range d.Orders.All() {
			if !o.Draining {
				continue
			}
			again = tick.C
			if err := d.pass(ctx, o); err != nil && ctx.Err() == nil {
				d.Log.Warn("a pass of draining a host failed; trying again", "host", o.Host, "err", err)
			}
		}
		select {
		case <-again:
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// Steps gives what a pass over a host would do now.
func (d *Drainer) Steps(ctx context.Context, o schemas.HostOrder) ([]Step, error) {
	var records []statekv.Versioned
	var names []schemas.Name
	for v := range d.Fleet.Busy {
		if v.Host == o.Host || v.MovingTo() == o.Host {
			records, names = append(records, v), append(names, v.Name())
		}
	}
	use, err := d.Scheduler.InUse(ctx, names)
	if err != nil {
		return nil, err
	}
	target := func(v statekv.Versioned) (schemas.HostID, string) { return d.target(ctx, v) }
	_, gone := d.Fleet.Gone(o.Host)
	return Plan(o.Host, gone, o.Force, records, use, target, time.Now()), nil
}

// target chooses a host with room for a session of a host that is drained.
func (d *Drainer) target(ctx context.Context, v statekv.Versioned) (schemas.HostID, string) {
	hosts, err := d.Fleet.Hosts(ctx)
	if err != nil {
		return "", err.Error()
	}
	w, why := fleet.WantOfMove(hosts, v.SessionRecord)
	if why != "" {
		return "", why
	}
	if f := v.Failure; f != nil && f.Op == schemas.OpMove {
		w.Not = append(w.Not, f.Tried...)
	}
	for full := ""; ; {
		to, _, err := d.Fleet.Place(ctx, w)
		if err != nil {
			return "", err.Error() + full
		}
		has, err := d.Scheduler.HasRoom(ctx, to)
		if err != nil {
			return "", err.Error()
		}
		if has {
			return to, ""
		}
		w.Not, full = append(w.Not, to), fmt.Sprintf("%s; host %s has no room", full, to)
	}
}

// pass begins what can start now of what is to be done about a host.
func (d *Drainer) pass(ctx context.Context, o schemas.HostOrder) error {
	steps, err := d.Steps(ctx, o)
	if err != nil || len(steps) == 0 {
		return err
	}
	going := 0
	for _, s := range steps {
		if s.Act == Wait && s.Record.Host == o.Host && (s.Record.State == schemas.Suspending || s.Record.State == schemas.Suspended) {
			going++
		}
	}
	var all []error
	moved := false
	for _, s := range steps {
		if s.Act == Wait || going >= atOnce {
			continue
		}
		if s.Act == Move && moved { // what was moved before takes room, and may be one to stay apart from
			if s.To, _ = d.target(ctx, s.Record); s.To == "" {
				continue
			}
		}
		err := d.do(ctx, o, s)
		moved = moved || s.Act == Move
		if errors.Is(err, statekv.ErrConflict) || errors.Is(err, session.ErrIllegal) {
			continue // it moved on: the next pass has it as it is then
		}
		all = append(all, err)
		going++
	}
	return errors.Join(all...)
}

// do begins a suspend or a move. It is of the revision that was decided on. Unless it is forced,
// activity undoes it that this wasn't decided on.
func (d *Drainer) do(ctx context.Context, o schemas.HostOrder, s Step) error {
	now := time.Now()
	op := schemas.NewOp(schemas.OpSuspend, s.Seq, now)
	if op.Idle = !o.Force; o.Force {
		seq, err := stream.LastActivity(ctx, d.JS, d.Names)
		if err != nil {
			return err
		}
		op.Seq = seq
	}
	t := schemas.Transition{
		Type: schemas.TSuspend, Actor: d.Actor, Op: op.ID, Evidence: &schemas.Evidence{Seq: op.Seq},
		Reason: fmt.Sprintf("host %s is drained by %s: %s", o.Host, o.By, s.Why),
		Set:    schemas.Set{Op: op, Pause: &schemas.Pause{Reason: schemas.PauseDrain, At: now.UTC()}},
	}
	op.Trigger = string(schemas.PauseDrain)
	release := func(statekv.Revision) {}
	if s.Act == Move {
		var err error
		if _, release, err = d.Scheduler.MakeRoom(ctx, s.To, s.Record.Name()); err != nil {
			return err
		}
		op.Move, op.Trigger = &schemas.Move{From: o.Host, To: s.To}, string(schemas.PauseMove)
		t.Reason += "; it moves to host " + string(s.To)
	}
	next, err := d.Records.Swap(ctx, s.Record, t)
	release(next.Rev)
	if err != nil {
		return err
	}
	d.heard(ctx, next)
	d.Log.Info("drained", next.Logged("act", s.Act, "why", s.Why)...)
	if err := d.publish.Command(ctx, next.SessionRecord); err != nil {
		d.Log.Warn("command not published; the host's own watch finds the record", next.Logged("err", err)...)
	}
	return nil
}

// heardWait bounds how long heard waits.
const heardWait = time.Second

// heard waits until the fleet knows of a revision, so that it places the next session by it.
func (d *Drainer) heard(ctx context.Context, rec statekv.Versioned) {
	for end := time.Now().Add(heardWait); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(time.Millisecond) {
		for v := range d.Fleet.Busy {
			if v.UID == rec.UID && v.Rev.Seq() >= rec.Rev.Seq() {
				return
			}
		}
	}
}

// Left shows the steps of a pass to a person.
func Left(steps []Step) []schemas.HostLeft {
	out := make([]schemas.HostLeft, 0, len(steps))
	for _, s := range steps {
		out = append(out, schemas.HostLeft{Name: s.Record.Name().String(), State: s.Record.State, Step: string(s.Act), Why: s.Why})
	}
	return slices.Clip(out)
}
