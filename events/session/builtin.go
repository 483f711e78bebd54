package session

import (
	"time"

	"github.com/diapause/diapause/schemas"
)

// Builtin gives what a class is held to where nothing is set, as a document would say
// it; of all classes, without their graces, if class is empty.
func Builtin(class string) schemas.Policy {
	p, ok := PolicyFor(class, nil)
	w := DefaultWeights()
	out := schemas.Policy{
		Never: ptr(false), Counts: p.counts.list(), Wakes: p.wakes.list(), Wake: schemas.DefaultWake(), Awake: span(0), Warn: span(0), Life: span(0),
		Breaker: &p.Breaker, Backoff: span(p.Backoff), OnBreaker: schemas.BreakerKeep, OnResume: schemas.ResumeKeep, Rehearse: p.Rehearse,
		Score: &schemas.Score{Base: &w.Base, IdleHour: &w.IdleHour, Command: &w.Command, Commands: &w.Commands, ByPerson: &w.ByPerson},
	}
	if ok {
		out.Grace = span(p.Grace)
	}
	return out
}

// RuleOf gives the rule that a session was run with as a document would say it.
func RuleOf(own *schemas.Idle) (p schemas.Policy) {
	if own == nil {
		return p
	}
	p.Never = &own.Never
	if own.Grace > 0 {
		p.Grace = span(time.Duration(own.Grace) * time.Millisecond)
	}
	return p
}

func ptr[T any](v T) *T { return &v }

func span(d time.Duration) *schemas.Duration { return ptr(schemas.Duration(d)) }

func (s kinds) list() (out []schemas.Kind) {
	for _, k := range schemas.Kinds() {
		if s.has(k) {
			out = append(out, k)
		}
	}
	return out
}
