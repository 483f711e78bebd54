package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/diapause/diapause/events/redact"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/recordings"
)

// redact takes something out of the recording of a session of this host, which it doesn't wake.
func (w *Worker) redact(ctx context.Context, q schemas.RedactQuestion) schemas.RedactAnswer {
	ctx, cancel := context.WithDeadline(ctx, q.Before)
	defer cancel()
	out, err := w.redacted(ctx, q)
	answer := schemas.RedactAnswer{Redacted: out}
	if err != nil {
		answer.Error, answer.Hint = err.Error(), schemas.HintOf(err)
	}
	return answer
}

func (w *Worker) redacted(ctx context.Context, q schemas.RedactQuestion) (schemas.Redacted, error) {
	re, err := q.Expression()
	if err != nil {
		return schemas.Redacted{}, err
	}
	n, err := schemas.ParseName(q.Name)
	if err != nil {
		return schemas.Redacted{}, err
	}
	rec, err := w.Records.Get(ctx, n)
	if err != nil {
		return schemas.Redacted{}, err
	}
	if rec.UID != q.UID || rec.State == schemas.Deleted {
		return schemas.Redacted{}, fmt.Errorf("session %s was removed", n)
	}
	want := recordings.Wanted{Match: re, By: q.By, Before: time.Now(), Dry: q.DryRun}
	if live, ok := w.Drivers[rec.Driver].(driver.Recorder); ok && !q.DryRun && rec.State == schemas.Running {
		err := live.RedactShown(ctx, rec.UID, q.Match) // first: what it seals after that has it no more
		if err != nil && !errors.Is(err, driver.ErrNotHere) {
			return schemas.Redacted{}, err
		}
	}
	w.sealRecorded(ctx, rec.SessionRecord)
	if !q.DryRun {
		defer w.searcher.Forget(rec.UID) // also after an error: what it counts, it counts
	}
	out, err := w.recordings.Redact(ctx, rec.SessionRecord, want)
	if err != nil {
		return out, err
	}
	out.Outputs, err = w.snapshots.RedactOutputs(ctx, rec.SessionRecord, redact.Matching(re), q.DryRun)
	return out, err
}
