package rebuild

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/lease"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/recovery"
	"github.com/diapause/diapause/workers/snapshots"
)

// ErrWentBack is how FollowLog ends when the log of sessions is no longer the one that was
// served: nothing may be decided from it before Run.
var ErrWentBack = errors.New("the records of sessions have gone back")

// Records are the session records. *statekv.Store is one, and says what each method promises.
type Records interface {
	Get(ctx context.Context, n schemas.Name) (statekv.Versioned, error)
	Swap(ctx context.Context, prev statekv.Versioned, t schemas.Transition) (statekv.Versioned, error)
	Watch(ctx context.Context, fn func(statekv.Versioned), caughtUp func()) error
}

// Options is what a Rebuilder is made of. All fields are needed but Lease.
type Options struct {
	Host      schemas.HostID
	JS        jetstream.JetStream
	Names     stream.Names
	Records   Records
	Ledger    *recovery.Ledger
	Lease     *lease.Holder // of this host; its store may have gone back too
	Snapshots *snapshots.Store
	// Here lists the sessions that were on the host when it started.
	Here func(ctx context.Context) ([]recovery.Here, error)
	// Rebuilt is called for each record that was made again.
	Rebuilt func(ctx context.Context, r schemas.SessionRecord)
	Log     *slog.Logger
}

// Rebuilder makes the records of one host's sessions again.
type Rebuilder struct {
	Options
	here       []recovery.Here
	witnesses  witnesses
	generation string // the last recovery of the fleet that this host had a part in
}

// New makes a Rebuilder. Run comes first, then FollowLog.
func New(o Options) *Rebuilder { return &Rebuilder{Options: o} }

// Result says what Run found and did.
type Result struct {
	Signs    []string          // what spoke for lost transitions; none: nothing was wrong
	Sessions []schemas.Name    // whose records were made again
	Reasons  map[string]string // by session
}

// Run looks whether the log of sessions has lost transitions that this host saw, and makes
// the records again if so: of each session what the highest epoch says that the log, the
// host's ledger, its processes or the signed images know. It is called before anything
// decides, collects or answers clients. It removes nothing. With force it does all that
// without a sign, and takes images that other hosts signed for sessions without a record.
//
// All known hosts do that together, and Run returns when all have, except for those in
// without. waiting is called with the hosts that it waits for.
func (r *Rebuilder) Run(ctx context.Context, force bool, without []schemas.HostID, waiting func([]schemas.HostID)) (Result, error) {
	here, err := r.Here(ctx)
	if err != nil {
		return Result{}, err
	}
	r.here = here
	out := Result{Reasons: map[string]string{}}
	kept := r.Ledger.Records()
	log, is, err := r.compare(ctx, kept, &out)
	if err != nil {
		return out, err
	}
	in, err := r.joinGeneration(ctx, len(out.Signs) > 0)
	if err != nil {
		return out, err
	}
	if !in && !force {
		return out, r.Ledger.Reach(is.Mark)
	}
	for _, s := range out.Signs {
		r.Log.Warn("the records have gone back", "sign", s)
	}
	if err := r.rebuildAll(ctx, log, kept, force, &out); err != nil {
		return out, err
	}
	others, err := r.others(ctx, log, kept)
	if err != nil {
		return out, err
	}
	others = slices.DeleteFunc(others, func(h schemas.HostID) bool { return slices.Contains(without, h) })
	if err := r.assemble(ctx, others, waiting); err != nil {
		return out, err
	}
	if is, err = r.logEnd(ctx, recovery.Mark{}); err != nil {
		return out, err
	}
	return out, r.Ledger.Reach(is.Mark)
}

// patience is for how many looks, one each followEvery, a sign has to last in a cluster: a leader
// that was deposed and doesn't know it yet gives stale answers for a while.
const patience = 15

// compare reads the log and looks for signs that it lost something.
func (r *Rebuilder) compare(ctx context.Context, kept map[schemas.Name]schemas.SessionRecord, out *Result) (log map[schemas.Name]statekv.Versioned, is logEnd, err error) {
	for look := 0; ; look++ {
		saw := r.Ledger.Mark()
		if is, err = r.logEnd(ctx, saw); err != nil {
			return nil, is, err
		}
		if log, err = r.allRecords(ctx); err != nil {
			return nil, is, err
		}
		logged := map[schemas.Name]schemas.SessionRecord{}
		for n, v := range log {
			logged[n] = v.SessionRecord
		}
		out.Signs = append(is.replaced, recovery.Compare(saw, is.Mark, logged, kept, r.here)...)
		if len(out.Signs) == 0 || !is.cluster || look >= patience {
			return log, is, nil
		}
		select {
		case <-time.After(followEvery):
		case <-ctx.Done():
			return nil, is, ctx.Err()
		}
	}
}

func (r *Rebuilder) rebuildAll(ctx context.Context, log map[schemas.Name]statekv.Versioned, kept map[schemas.Name]schemas.SessionRecord, force bool, out *Result) error {
	images := map[schemas.Name][]recovery.Image{}
	err := r.Snapshots.Signed(ctx, func(head schemas.Head, h schemas.ImageHeader) {
		n := schemas.Name{Tenant: h.Tenant, Session: h.Session}
		images[n] = append(images[n], recovery.Image{Head: head, Header: h})
	})
	if err != nil {
		return fmt.Errorf("the images are needed to make the records again: %w", err)
	}
	activity, err := stream.LastActivity(ctx, r.JS, r.Names)
	if err != nil {
		return err
	}
	names := map[schemas.Name]recovery.Evidence{}
	add := func(n schemas.Name, change func(*recovery.Evidence)) {
		e := names[n]
		e.Host, e.Activity, e.All = r.Host, activity, force
		change(&e)
		names[n] = e
	}
	for n, v := range log {
		add(n, func(e *recovery.Evidence) { e.Logged = &v.SessionRecord })
	}
	for n, rec := range kept {
		add(n, func(e *recovery.Evidence) { e.Kept = &rec })
	}
	for n, all := range images {
		add(n, func(e *recovery.Evidence) { e.Images = all })
	}
	for _, h := range r.here {
		add(h.Name, func(e *recovery.Evidence) {
			if e.Here == nil || h.Epoch > e.Here.Epoch { // for a moment a host may have two sessions of one name
				e.Here = &h
			}
		})
	}
	for _, n := range sorted(names) {
		if err := r.rebuild(ctx, log[n], names[n], out); err != nil {
			return fmt.Errorf("make the record of session %s again: %w", n, err)
		}
	}
	return nil
}

// rebuild makes one record again. If another host was quicker, its record is one more piece of
// evidence.
func (r *Rebuilder) rebuild(ctx context.Context, prev statekv.Versioned, e recovery.Evidence, out *Result) error {
	for {
		v, ok := recovery.Plan(e)
		if !ok {
			return nil
		}
		r.complete(ctx, &v)
		next, err := r.Records.Swap(ctx, prev, schemas.Transition{
			Type: schemas.TRecovered, Reason: "the records went back; " + v.Why(), Actor: "worker@" + string(r.Host), Set: schemas.Set{Recovered: &v.Record},
		})
		if errors.Is(err, statekv.ErrConflict) {
			if prev, err = r.Records.Get(ctx, v.Record.Name()); err != nil {
				return err
			}
			e.Logged = &prev.SessionRecord
			continue
		}
		if err != nil {
			return err
		}
		n := next.Name()
		r.Log.Warn("recovered", next.Logged("state", next.State, "because", v.Why())...)
		r.Rebuilt(ctx, next.SessionRecord)
		out.Sessions, out.Reasons[n.String()] = append(out.Sessions, n), v.Why()
		return nil
	}
}

func sorted(names map[schemas.Name]recovery.Evidence) []schemas.Name {
	out := make([]schemas.Name, 0, len(names))
	for n := range names {
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b schemas.Name) int { return strings.Compare(a.Key(), b.Key()) })
	return out
}

func (r *Rebuilder) allRecords(ctx context.Context) (map[schemas.Name]statekv.Versioned, error) {
	watch, stop := context.WithCancel(ctx)
	defer stop()
	all, complete := map[schemas.Name]statekv.Versioned{}, false
	err := r.Records.Watch(watch, func(v statekv.Versioned) { all[v.Name()] = v }, func() { complete = true; stop() })
	if err == nil && !complete {
		err = fmt.Errorf("read all records: %w", ctx.Err())
	}
	return all, err
}

// complete gives a record that no host remembers what its image has of it.
func (r *Rebuilder) complete(ctx context.Context, v *recovery.Verdict) {
	rec := v.Record
	if rec.Spec != "" || rec.Head == nil || len(r.Snapshots.Identities) == 0 || rec.State == schemas.Deleted {
		return
	}
	was, err := r.Snapshots.Record(ctx, rec)
	if err != nil || was.Spec == "" {
		r.Log.Warn("could not read the spec of a session from its image", rec.Logged("err", err)...)
		return
	}
	rec.Class, rec.Driver, rec.Keeps, rec.MadeBy, rec.Program, rec.Spec = was.Class, was.Driver, was.Keeps, was.MadeBy, was.Program, was.Spec
	rec.Idle, rec.TTY, rec.Disk, rec.OnLoss, rec.OnBreaker, rec.OnResume, rec.Created = was.Idle, was.TTY, was.Disk, was.OnLoss, was.OnBreaker, was.OnResume, was.Created
	if rec.Notice == nil { // what it keeps must not be deleted
		rec.Notice = was.Notice
	}
	v.Record, v.Missing = rec, "how it was started is in its image"
}
