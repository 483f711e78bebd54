package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// reap kills the frozen tree that an image has replaced, unless activity came since: then the
// tree is thawed, which is cheaper than a resume.
func (c *capturer) reap(ctx context.Context, rec statekv.Versioned) error {
	d, err := c.drivers.of(rec.SessionRecord)
	if err != nil {
		return err
	}
	revived, err := c.revive(ctx, rec, d)
	if revived || err != nil {
		return err
	}
	if err := c.failpoints.At(ctx, failpoint.ReapHeard); err != nil {
		return err
	}
	if err := d.Stop(ctx, fenceOf(rec.SessionRecord)); err != nil {
		return fmt.Errorf("remove the frozen processes of suspended session %s: %w", rec.Name(), err)
	}
	c.recordings.Tidy(rec.UID)
	if err := c.failpoints.At(ctx, failpoint.ReapKilled); err != nil {
		return err
	}
	t := schemas.Transition{Type: schemas.TReaped, Reason: "its processes are gone, its image stays"}
	if rec.Op.Move != nil {
		t = onward(rec.SessionRecord, time.Now())
	}
	_, err = c.recorder.swap(ctx, rec, t)
	if err != nil {
		return err
	}
	return c.failpoints.At(ctx, failpoint.ReapRecorded)
}

// revive undoes a suspend that is recorded already, if the tree is still there and activity
// came.
func (c *capturer) revive(ctx context.Context, rec statekv.Versioned, d driver.Driver) (bool, error) {
	if i, err := d.Inspect(ctx, rec.UID); errors.Is(err, driver.ErrNotHere) || i.State == driver.Exited {
		return false, nil
	} else if err != nil {
		return false, err
	}
	late, err := c.bus.Since(ctx, rec.Name(), heardUpTo(rec))
	if err != nil {
		return false, err
	}
	policy := c.policy(rec.SessionRecord)
	for _, m := range late {
		if !session.Undoes(*rec.Op, m.Source, m.Activity, policy) {
			continue
		}
		u, fence := undone{m}, c.hosting.fence(rec.SessionRecord)
		next, err := c.recorder.swap(ctx, rec, schemas.Transition{Type: schemas.TRevived, Reason: u.Error(), Evidence: u.evidence()})
		if err != nil {
			return false, err
		}
		if err := c.failpoints.At(ctx, failpoint.ReviveRecorded); err != nil {
			return true, err
		}
		fence.Epoch = next.Epoch
		return true, d.Thaw(ctx, fence)
	}
	return false, nil
}

// onward has a session that moves, and is suspended now, resumed where it goes, by the same op. There
// is no moment in which the record says less than that.
func onward(r schemas.SessionRecord, now time.Time) schemas.Transition {
	op := again(*r.Op, now)
	op.Source, op.Boot = r.Head, session.BootOf(r)
	return schemas.Transition{
		Type: schemas.TResume, Reason: fmt.Sprintf("it moves to host %s; its processes on host %s are gone", op.Move.To, r.Host),
		Set: schemas.Set{Op: &op, Host: op.Move.To},
	}
}

// again gives the resume that an op goes on with on another host.
func again(op schemas.Op, now time.Time) schemas.Op {
	op.Kind, op.Claim, op.Attempts, op.Idle, op.Deadline = schemas.OpResume, "", 0, false, now.Add(schemas.OpTimeout).UTC()
	return op
}
