package api

import (
	"context"

	"github.com/diapause/diapause/schemas"
)

// intake is a scheduler that counts what it hears.
type intake interface{ Intake() schemas.Intake }

// stats counts sessions by state, and what was heard, readable or not.
func (s *Server) stats(context.Context, schemas.Request) (any, error) {
	out := schemas.Stats{Sessions: map[schemas.State]int{}}
	for _, v := range s.board.all() {
		if v.State != schemas.Deleted {
			out.Sessions[v.State]++
		}
	}
	if counting, ok := s.Scheduler.(intake); ok {
		out.Intake = counting.Intake()
	}
	return out, nil
}
