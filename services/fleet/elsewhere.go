package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/diapause/diapause/events/beat"
	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
)

// failed is a resume that a host couldn't do, as it stands, and what was asked for.
type failed struct {
	statekv.Versioned
	op        schemas.Op
	notBefore time.Time
}

// notice finds resumes that fail while this fleet watches. Earlier failures were
// handled then, or are no longer of interest. Called with mu held.
func (f *Fleet) notice(before, now statekv.Versioned) {
	asked := before.Op
	if !f.known || asked == nil || asked.Kind != schemas.OpResume || asked.Source == nil || before.UID != now.UID {
		return
	}
	if now.Transition.Type != schemas.TResumeFailed || now.Failure == nil || len(now.Failure.Tried) == 0 {
		return
	}
	f.failed = append(f.failed, failed{Versioned: now, op: *asked})
	f.tell()
}

// tell wakes tryElsewhere.
func (f *Fleet) tell() {
	select {
	case f.news <- struct{}{}:
	default: // the reader of one finds all
	}
}

// tryElsewhere has other hosts try a resume for any actor: activity, which doesn't ask
// twice, or a takeover. The verb of a client that waits tries them itself. It also has resumes
// placed whose host isn't chosen yet. What fails for a reason that may pass is tried again.
func (f *Fleet) tryElsewhere(ctx context.Context) error {
	tick := beat.NewTicker(f.pause / 4)
	defer tick.Stop()
	var looked time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.news:
		case <-tick.C:
			tick.Next()
		}
		f.mu.Lock()
		all := f.failed
		f.failed = nil
		f.mu.Unlock()
		for _, one := range all {
			f.tryOne(ctx, one)
		}
		if time.Since(looked) > f.pause {
			looked = time.Now()
			f.lookAgain(ctx)
		}
		for _, v := range f.unplaced(time.Now()) {
			if err := f.place(ctx, v); passes(err) && ctx.Err() == nil {
				f.Log.Warn("a resume has no host yet; trying again", v.Logged("err", err)...)
			}
		}
	}
}

// tryOne has another host try a resume that failed.
func (f *Fleet) tryOne(ctx context.Context, one failed) {
	if time.Now().Before(one.notBefore) {
		f.later(one)
		return
	}
	err := f.another(ctx, one)
	if passes(err) && ctx.Err() == nil {
		one.notBefore = time.Now().Add(f.pause)
		f.later(one)
	}
	if err != nil && !errors.Is(err, statekv.ErrConflict) && !errors.Is(err, session.ErrIllegal) && ctx.Err() == nil {
		f.Log.Warn("a resume that failed isn't tried elsewhere", one.Logged("err", err)...)
	}
}

func (f *Fleet) later(one failed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = append(f.failed, one)
}

// passes reports whether an error may be of a moment alone: neither the record nor the hosts say
// that there is nothing to do.
func passes(err error) bool {
	var none *NoHost
	return err != nil && !errors.Is(err, statekv.ErrConflict) && !errors.Is(err, session.ErrIllegal) && !errors.As(err, &none)
}

func (f *Fleet) another(ctx context.Context, v failed) error {
	header, err := f.header(ctx, v.SessionRecord, *v.op.Source)
	if err != nil {
		return err
	}
	op := schemas.NewOp(schemas.OpResume, v.op.Seq, time.Now())
	op.Source, op.Boot, op.Tried, op.Refused = v.op.Source, v.op.Boot, v.Failure.Tried, v.Failure.Refused
	err = f.move(ctx, v.Versioned, Want{Need: header.Fingerprint}, schemas.TResume, "host %s couldn't resume it; trying another", op)
	var none *NoHost
	if errors.As(err, &none) {
		return errors.Join(err, f.unresumable(ctx, v, header.Fingerprint))
	}
	return err
}

// unplaced lists the resumes whose host is to be chosen, those that were recorded while no fleet
// was there among them, but for those that were tried a moment ago.
func (f *Fleet) unplaced(now time.Time) (out []statekv.Versioned) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.known {
		return nil
	}
	for uid, t := range f.placing {
		if now.Sub(t.at) > f.pause {
			delete(f.placing, uid)
		}
	}
	for _, v := range f.records {
		if v.Op != nil && v.Op.Unplaced && v.State == schemas.Resuming && f.placing[v.UID].rev != v.Rev {
			out = append(out, v)
			f.placing[v.UID] = attempt{v.Rev, now}
		}
	}
	return out
}

// final reports whether an error of place won't pass: no host can do it, or the image is of no use.
func final(err error) bool {
	var none *NoHost
	return errors.As(err, &none) || errors.Is(err, image.ErrCorrupt) || errors.Is(err, image.ErrForged) || errors.Is(err, image.ErrNoKey) || errors.Is(err, image.ErrNotFound)
}

// place chooses the host of a resume that has none, or has it fail if no host can do it.
func (f *Fleet) place(ctx context.Context, v statekv.Versioned) error {
	to := schemas.HostID("")
	header, err := f.header(ctx, v.SessionRecord, *v.Op.Source)
	if err == nil {
		to, _, err = f.Place(ctx, Want{Session: v.Name(), Placement: v.Placement, Need: header.Fingerprint, Knows: v.Needs, Prefer: v.Host, Not: v.Op.Tried})
	}
	t := schemas.Transition{Type: schemas.TMoved, Actor: f.Actor, Op: v.Op.ID}
	switch {
	case final(err):
		t.Type, t.Reason = schemas.TResumeFailed, err.Error()
		t.Set.Failure = &schemas.Failure{Op: schemas.OpResume, Text: err.Error(), Hint: schemas.HintOf(err), Count: 1, Resumes: 1, At: time.Now().UTC()}
	case err != nil:
		return err
	default:
		op := *v.Op
		op.Unplaced, op.Deadline = false, time.Now().Add(schemas.OpTimeout).UTC()
		t.Reason, t.Set = fmt.Sprintf("host %s can take it", to), schemas.Set{Host: to, Op: &op}
	}
	next, err := f.Records.Swap(ctx, v, t)
	if err != nil || next.Op == nil {
		return err
	}
	if err := f.publish.Command(ctx, next.SessionRecord); err != nil {
		f.Log.Warn("command not published; the host's own watch finds the record", v.Logged("err", err)...)
	}
	return nil
}
