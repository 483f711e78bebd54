package worker

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

const (
	// steady is how long a session without a health check of its own has to run until it
	// counts as well.
	steady = 10 * time.Second
	// proveEach is how often it is looked at meanwhile.
	proveEach = 100 * time.Millisecond
)

// toProve gives the op that remains when a snapshot runs in the place of what the session was;
// nil if op replaces nothing. The record gets it together with the state running, so that the
// next worker goes on with it if this one dies.
func toProve(op schemas.Op) *schemas.Op {
	if op.Fallback == nil {
		return nil
	}
	op.Kind, op.Attempts, op.Source = schemas.OpProve, 0, nil
	return &op
}

// toBeProved reports whether a session runs in the place of what it was and isn't known to be
// well yet.
func toBeProved(r schemas.SessionRecord) bool { return r.Op != nil && r.Op.Kind == schemas.OpProve }

// prove waits until what took a session's place is well, or puts back what it was.
func (s *starter) prove(ctx context.Context, rec statekv.Versioned) error {
	if err := s.failpoints.At(ctx, failpoint.ProveStarts); err != nil {
		return err
	}
	d, err := s.drivers.of(rec.SessionRecord)
	if err != nil {
		return s.fallBack(ctx, &rec, err.Error())
	}
	var ill string
	err = s.interrupter.run(ctx, rec, func(ctx context.Context) error {
		ill, err = untilWell(ctx, d, rec.UID, time.Duration(rec.Op.WithinMS)*time.Millisecond)
		return err
	})
	if err != nil {
		return err
	}
	if ill != "" {
		return s.fallBack(ctx, &rec, ill)
	}
	_, err = s.recorder.swap(ctx, rec, schemas.Transition{Type: schemas.TProved, Reason: "it is well"})
	return err
}

// untilWell waits for a session to be well, and says why it isn't. After a restart of the
// worker the time starts again: clocks of two processes aren't compared. So it does when the
// session stood still (errFrozen).
func untilWell(ctx context.Context, d driver.Driver, uid schemas.UID, within time.Duration) (ill string, err error) {
	began, long := time.Now(), min(steady, within)
	var seen driver.Health
	var since time.Time // when it was first seen to run as it does
	for tick := time.NewTicker(proveEach); ; {
		h, err := healthOf(ctx, d, uid)
		if err != nil {
			tick.Stop()
			return "", err
		}
		if h.State != seen.State || !h.Began.Equal(seen.Began) {
			seen, since = h, time.Now()
		}
		limit := within
		if h.State == driver.Unchecked {
			limit += long
		}
		switch {
		case h.State == driver.Well, h.State == driver.Unchecked && time.Since(since) >= long:
			tick.Stop()
			return "", nil
		case h.State == driver.Ill:
			tick.Stop()
			return h.Text, nil
		case time.Since(began) >= limit:
			tick.Stop()
			return fmt.Sprintf("it isn't well after %v: %s", limit, h.Text), nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return "", ctx.Err()
		}
	}
}

// errFrozen says that a session can't be judged, since it froze by itself.
var errFrozen = errors.New("it is frozen: the lease of its host ran out")

// healthOf asks the driver, or goes by whether the session runs.
func healthOf(ctx context.Context, d driver.Driver, uid schemas.UID) (driver.Health, error) {
	i, err := d.Inspect(ctx, uid)
	switch {
	case errors.Is(err, driver.ErrNotHere):
		return driver.Health{State: driver.Ill, Text: "its processes are gone"}, nil
	case err != nil:
		return driver.Health{}, err
	case i.State == driver.Exited:
		return driver.Health{State: driver.Ill, Text: endOf(i)}, nil
	case i.State == driver.Frozen:
		return driver.Health{}, errFrozen
	}
	if p, ok := d.(driver.Prober); ok {
		return p.Health(ctx, uid)
	}
	return driver.Health{State: driver.Unchecked, Began: i.Started, Text: "it ended again and again"}, nil
}

// endOf says how a session ended.
func endOf(i driver.Instance) string {
	switch {
	case i.Exit == nil:
		return "it ended"
	case i.Exit.Reason != "":
		return "it ended: " + i.Exit.Reason
	}
	return fmt.Sprintf("it ended with status %d", i.Exit.Code)
}

// replacement names the snapshot that took, or was to take, a session's place.
func replacement(r schemas.SessionRecord) string {
	head := r.Head
	if r.Op.Source != nil { // it isn't restored yet
		head = r.Op.Source
	}
	return path.Base(head.Name)
}

// fallBack has a session go on from what it was before a snapshot took its place. The resume
// that it records removes what runs now.
func (s *starter) fallBack(ctx context.Context, rec *statekv.Versioned, why string) error {
	was := rec.SessionRecord
	was.Head = rec.Op.Fallback
	op := schemas.NewOp(schemas.OpResume, rec.Seq, time.Now())
	op.Source, op.Boot = rec.Op.Fallback, session.BootOf(was)
	s.log.Error("a replacement isn't well: putting back what it replaced", rec.Logged("err", why)...)
	s.recorder.event(ctx, rec.SessionRecord, "replace_failed", "the session is put back as it was: %s", why)
	f := &schemas.Failure{Text: fmt.Sprintf("snapshot %s took its place: %s", replacement(rec.SessionRecord), why), Op: schemas.OpProve, Count: 1, At: time.Now().UTC()}
	next, err := s.recorder.swap(ctx, *rec, schemas.Transition{Type: schemas.TFellBack, Reason: why, Set: schemas.Set{Op: op, Failure: f}})
	if err != nil {
		return err
	}
	*rec = next
	return s.failpoints.At(ctx, failpoint.FellBack)
}
