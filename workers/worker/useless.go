package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// resumeFailure is what the record is to say of a resume that failed: with why the image is of no use, if that
// is proven, and counted on from the failure before.
func (s *starter) resumeFailure(ctx context.Context, rec schemas.SessionRecord, cause error) *schemas.Failure {
	f := failure(schemas.OpResume, cause, rec.Op.Attempts)
	if last := rec.Failure; last != nil && last.Op == schemas.OpResume {
		f.Resumes = last.Resumes
	}
	if len(rec.Op.Tried) == 0 { // else it is the same resume, on another host
		f.Resumes++
	}
	f.Refused = slices.Clone(rec.Op.Refused)
	if driver.RefusedByEngine(cause) {
		f.Refused = append(f.Refused, s.drivers.host)
		return f
	}
	if errors.Is(cause, image.ErrNotFound) || errors.Is(cause, image.ErrCorrupt) {
		f.Cause = s.useless(ctx, rec, *rec.Op.Source)
	}
	return f
}

// useless proves that an image is of no use, and says why; "" if it isn't, or that can't be said.
func (s *starter) useless(ctx context.Context, rec schemas.SessionRecord, head schemas.Head) schemas.Cause {
	err := s.snapshots.Prove(ctx, rec, head)
	switch {
	case errors.Is(err, image.ErrNotFound):
		return schemas.CauseMissing
	case errors.Is(err, image.ErrCorrupt):
		return schemas.CauseDamaged
	}
	return ""
}

// stillUseless reads the image once more in whose place a session is to start: what was lost may be back.
// The error says that it is.
func (s *starter) stillUseless(ctx context.Context, rec schemas.SessionRecord) error {
	n := rec.Op.Notice
	if n == nil || n.Cause == schemas.CauseRefused || len(n.Kept) == 0 {
		return nil
	}
	if s.useless(ctx, rec, n.Kept[len(n.Kept)-1]) == "" {
		return &driver.Error{
			Kind: driver.Refused, Text: fmt.Sprintf("the image of session %s may be of use again", rec.Name()),
			Hint: fmt.Sprintf("`diapause resume %s` tries the image again", rec.Name()),
		}
	}
	return nil
}
