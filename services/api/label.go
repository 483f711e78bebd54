package api

import (
	"context"
	"errors"
	"maps"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// labeller changes the labels of sessions.
type labeller struct{ sessions *sessions }

// label changes labels. It is no use of the session.
func (l *labeller) label(ctx context.Context, req request) (any, error) {
	if req.Label == nil || len(req.Label.Labels)+len(req.Label.Remove) == 0 {
		return nil, schemas.UsageError("the request names no label")
	}
	if err := req.Label.Validate(); err != nil {
		return nil, schemas.UsageError("%v", err)
	}
	for {
		v, err := l.sessions.named(ctx, req)
		if err != nil {
			return nil, err
		}
		t, err := decideLabel(v.SessionRecord, *req.Label)
		if err != nil || t.Type == "" {
			return schemas.ViewOf(v.SessionRecord), err
		}
		next, err := l.sessions.ask(ctx, v, req, t)
		if errors.Is(err, statekv.ErrConflict) {
			continue // decided again, of what it is now
		}
		return schemas.ViewOf(next.SessionRecord), err
	}
}

// decideLabel gives the transition that changes the labels; its type is "" if nothing changes.
func decideLabel(r schemas.SessionRecord, want schemas.LabelRequest) (t schemas.Transition, err error) {
	all := schemas.Relabel(r.Labels, want)
	switch {
	case maps.Equal(all, r.Labels):
		return t, nil
	case !session.Can(r.State, schemas.TLabelled):
		return t, schemas.StateError(schemas.Reason(r.State), "session %s is %s", r.Name(), r.State)
	case len(all) > schemas.MaxLabels:
		return t, schemas.UsageError("label session %s: it has %d already", r.Name(), len(r.Labels)).WithHint("remove some: `diapause label %s KEY-`", r.Name())
	}
	reason := "its labels are removed"
	if len(all) > 0 {
		reason = "its labels are " + schemas.LabelText(all)
	}
	return schemas.Transition{Type: schemas.TLabelled, Reason: reason, Set: schemas.Set{Labels: all}}, nil
}
