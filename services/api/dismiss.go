package api

import (
	"context"
	"errors"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// dismiss takes note that a person has seen that a session was restarted without its memory. The snapshots
// that the notice kept are deleted as any others from now on.
func (s *sessions) dismiss(ctx context.Context, req request) (any, error) {
	for {
		v, err := s.named(ctx, req)
		if err != nil || v.Notice == nil {
			return schemas.ViewOf(v.SessionRecord), err
		}
		next, err := s.ask(ctx, v, req, schemas.Transition{Type: schemas.TDismissed, Reason: "the notice was dismissed"})
		if !errors.Is(err, statekv.ErrConflict) {
			return schemas.ViewOf(next.SessionRecord), err
		}
	}
}
