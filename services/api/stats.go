package api

import (
	"context"
	"maps"

	"github.com/diapause/diapause/schemas"
)

// intake is a scheduler that counts what it hears.
type intake interface{ Intake() schemas.Intake }

// stats counts sessions by state, and what was heard, readable or not.
func (s *views) stats(context.Context, request) (any, error) {
	out := schemas.Stats{Sessions: s.board.counted().States}
	maps.DeleteFunc(out.Sessions, func(state schemas.State, n int) bool {
		return n == 0 || state == schemas.Deleted || state == schemas.Template
	})
	if counting, ok := s.scheduler.(intake); ok {
		out.Intake = counting.Intake()
	}
	return out, nil
}
