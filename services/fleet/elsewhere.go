package fleet

import (
	"context"
	"errors"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// failed is a resume that a host couldn't do, as it stands, and what was asked for.
type failed struct {
	statekv.Versioned
	op schemas.Op
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
	f.failed = append(f.failed, failed{now, *asked})
	select {
	case f.news <- struct{}{}:
	default: // the reader of one finds all
	}
}

// tryElsewhere has other hosts try a resume for any actor: activity, which doesn't ask
// twice, or a takeover. The verb of a client that waits tries them itself.
func (f *Fleet) tryElsewhere(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.news:
		}
		f.mu.Lock()
		all := f.failed
		f.failed = nil
		f.mu.Unlock()
		for _, one := range all {
			err := f.another(ctx, one)
			if err != nil && !errors.Is(err, statekv.ErrConflict) && !errors.Is(err, session.ErrIllegal) && ctx.Err() == nil {
				f.Log.Warn("a resume that failed isn't tried elsewhere", "session", one.Name().String(), "err", err)
			}
		}
	}
}

func (f *Fleet) another(ctx context.Context, v failed) error {
	header, err := f.inspect(ctx, v.SessionRecord, *v.op.Source)
	if err != nil {
		return err
	}
	op := schemas.NewOp(schemas.OpResume, v.op.Seq, time.Now())
	op.Source, op.Boot, op.Tried = v.op.Source, v.op.Boot, v.Failure.Tried
	return f.move(ctx, v.Versioned, header.Fingerprint, schemas.TResume, "host %s couldn't resume it; trying another", op)
}
