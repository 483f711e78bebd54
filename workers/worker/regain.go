package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/recovery"
)

// ErrWentBack is how Serve ends when the log of sessions is no longer the one that
// was served: nothing may be decided from it before Regain.
var ErrWentBack = errors.New("the records of sessions have gone back: NATS was restored from a backup, or its store was lost")

// Regained says what Regain found and did.
type Regained struct {
	Signs    []string          // what spoke for lost transitions; none: nothing was wrong
	Sessions []schemas.Name    // whose records were made again
	Reasons  map[string]string // by session
	Left     []driver.Instance // on this host, and left alone: another host's record is later
}

// Regain looks whether the log of sessions has lost transitions that this host saw,
// and makes the records again if so: of each session what the highest epoch says
// that the log, the host's Ledger, its processes or the signed images know. It is
// called before Serve, and before anything decides, collects or answers clients. It
// removes nothing. With force it does all that without a sign, and takes images that
// other hosts signed for sessions without a record.
//
// All hosts that are known do that together, and it returns when all have; but for
// those that without names. waiting is told whom it waits for.
func (w *Worker) Regain(ctx context.Context, force bool, without []schemas.HostID, waiting func([]schemas.HostID)) (Regained, error) {
	if err := w.find(ctx); err != nil {
		return Regained{}, err
	}
	out := Regained{Reasons: map[string]string{}}
	kept := w.Ledger.Records()
	log, is, err := w.compare(ctx, kept, &out)
	if err != nil {
		return out, err
	}
	in, err := w.joinGeneration(ctx, len(out.Signs) > 0)
	if err != nil {
		return out, err
	}
	if !in && !force {
		return out, w.Ledger.Reach(is.Mark)
	}
	for _, s := range out.Signs {
		w.Log.Warn("the records have gone back", "sign", s)
	}
	if err := w.regainAll(ctx, log, kept, force, &out); err != nil {
		return out, err
	}
	others, err := w.others(ctx, log, kept)
	if err != nil {
		return out, err
	}
	others = slices.DeleteFunc(others, func(h schemas.HostID) bool { return slices.Contains(without, h) })
	if err := w.assemble(ctx, others, waiting); err != nil {
		return out, err
	}
	if is, err = w.logEnd(ctx, recovery.Mark{}); err != nil {
		return out, err
	}
	return out, w.Ledger.Reach(is.Mark)
}

// patience is how many looks, one each followEvery, a sign has to last that a
// cluster gives: a leader that was deposed and doesn't know it yet answers with the
// past for a while.
const patience = 15

// compare reads the log and looks for signs that it lost something.
func (w *Worker) compare(ctx context.Context, kept map[schemas.Name]schemas.SessionRecord, out *Regained) (log map[schemas.Name]statekv.Versioned, is logEnd, err error) {
	for look := 0; ; look++ {
		saw := w.Ledger.Mark()
		if is, err = w.logEnd(ctx, saw); err != nil {
			return nil, is, err
		}
		if log, err = w.allRecords(ctx); err != nil {
			return nil, is, err
		}
		logged := map[schemas.Name]schemas.SessionRecord{}
		for n, v := range log {
			logged[n] = v.SessionRecord
		}
		out.Signs = append(is.replaced, recovery.Compare(saw, is.Mark, logged, kept, w.here())...)
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

func (w *Worker) regainAll(ctx context.Context, log map[schemas.Name]statekv.Versioned, kept map[schemas.Name]schemas.SessionRecord, force bool, out *Regained) error {
	images, err := w.signedImages(ctx)
	if err != nil {
		return fmt.Errorf("the images are needed to make the records again: %w", err)
	}
	activity, err := stream.LastActivity(ctx, w.JS, w.Names)
	if err != nil {
		return err
	}
	names := map[schemas.Name]recovery.Evidence{}
	add := func(n schemas.Name, change func(*recovery.Evidence)) {
		e := names[n]
		e.Host, e.Activity, e.All = w.Host, activity, force
		change(&e)
		names[n] = e
	}
	for n, r := range log {
		add(n, func(e *recovery.Evidence) { e.Logged = &r.SessionRecord })
	}
	for n, r := range kept {
		add(n, func(e *recovery.Evidence) { e.Kept = &r })
	}
	for n, all := range images {
		add(n, func(e *recovery.Evidence) { e.Images = all })
	}
	for _, h := range w.here() {
		add(h.Name, func(e *recovery.Evidence) {
			if e.Here == nil || h.Epoch > e.Here.Epoch { // one name may have two lives on a host, for a moment
				e.Here = &h
			}
		})
	}
	for _, n := range sorted(names) {
		if err := w.regain(ctx, log[n], names[n], out); err != nil {
			return fmt.Errorf("make the record of session %s again: %w", n, err)
		}
	}
	return nil
}

// regain makes one record again. If someone else was quicker, what he wrote is one
// more witness.
func (w *Worker) regain(ctx context.Context, prev statekv.Versioned, e recovery.Evidence, out *Regained) error {
	for {
		v, ok := recovery.Plan(e)
		if !ok {
			return nil
		}
		w.complete(ctx, &v)
		next, err := w.Records.Swap(ctx, prev, schemas.Transition{
			Type: schemas.TRecovered, Reason: "the records went back; " + v.Why(), Actor: "worker@" + string(w.Host), Set: schemas.Set{Recovered: &v.Record},
		})
		if errors.Is(err, statekv.ErrConflict) {
			if prev, err = w.Records.Get(ctx, v.Record.Name()); err != nil {
				return err
			}
			e.Logged = &prev.SessionRecord
			continue
		}
		if err != nil {
			return err
		}
		n := next.Name()
		w.Log.Warn("recovered", "session", n.String(), "state", next.State, "epoch", next.Epoch, "because", v.Why())
		w.keep(next.SessionRecord)
		w.event(ctx, next.SessionRecord, "recovered", "%s", next.Transition.Reason)
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

// here is what was found on the host, as recovery reads it.
func (w *Worker) here() []recovery.Here {
	var out []recovery.Here
	for _, f := range w.found {
		out = append(out, recovery.Here{
			Driver: f.name, UID: f.UID, Name: f.Name, Epoch: f.Epoch, Frozen: f.State == driver.Frozen, Exited: f.State == driver.Exited,
		})
	}
	return out
}

func (w *Worker) allRecords(ctx context.Context) (map[schemas.Name]statekv.Versioned, error) {
	watch, stop := context.WithCancel(ctx)
	defer stop()
	all, complete := map[schemas.Name]statekv.Versioned{}, false
	err := w.Records.Watch(watch, func(v statekv.Versioned) { all[v.Name()] = v }, func() { complete = true; stop() })
	if err == nil && !complete {
		err = fmt.Errorf("read all records: %w", ctx.Err())
	}
	return all, err
}

// signedImages reads the header of every snapshot in the store that is signed by
// whom its tenant trusts today.
func (w *Worker) signedImages(ctx context.Context) (map[schemas.Name][]recovery.Image, error) {
	places, _, err := image.Places(ctx, w.Images)
	if err != nil {
		return nil, err
	}
	out := map[schemas.Name][]recovery.Image{}
	for _, p := range places {
		trusted := w.Trusted
		if w.Keyring != nil {
			trusted = image.TrustedWhen(w.Keyring.Writers(ctx, p.Tenant), func() time.Time { return time.Time{} })
		}
		all, err := image.List(ctx, w.Images, p.Tenant, p.Lineage, trusted)
		if err != nil {
			return nil, err
		}
		for _, l := range all {
			if l.Err != nil {
				w.Log.Warn("an image says nothing", "image", l.Head.Name, "err", l.Err)
				continue
			}
			n := schemas.Name{Tenant: l.Header.Tenant, Session: l.Header.Session}
			out[n] = append(out[n], recovery.Image{Head: l.Head, Header: l.Header})
		}
	}
	return out, nil
}

// keep has the host remember a record.
func (w *Worker) keep(r schemas.SessionRecord) {
	if w.Ledger == nil {
		return
	}
	if err := w.Ledger.Keep(r); err != nil {
		w.Log.Warn("a record isn't remembered: should NATS lose it, it is lost", "session", r.Name().String(), "err", err)
	}
}
