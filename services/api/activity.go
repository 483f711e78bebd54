package api

import (
	"context"

	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// activity publishes what a caller says of a session that exists, and gives the session as it was before: its name alone to
// a caller who may not look.
func (s *sessions) activity(ctx context.Context, req request) (any, error) {
	v, err := s.named(ctx, req)
	if err != nil {
		return nil, err
	}
	a := req.Activity
	if a == nil {
		return nil, schemas.UsageError("the request says no activity")
	}
	subject := schemas.ActivitySubject(v.Name(), a.Kind, a.Key)
	if from, err := schemas.ParseActivitySubject(subject); err != nil || from.Kind != a.Kind || from.Key != a.Key || from.From != "" {
		return nil, schemas.UsageError("activity %q with the key %q isn't one", a.Kind, a.Key).
			WithHint("presence, busy, hold and agent carry a key, the other kinds none")
	}
	if a.TTL < 0 || a.TTL > schemas.Duration(schemas.MaxLease) {
		return nil, schemas.UsageError("a lease of %s: want a time up to %s", a.TTL, schemas.Duration(schemas.MaxLease))
	}
	said := schemas.Activity{
		TTL: a.TTL, Released: a.Released, Reason: schemas.Shown(req.Reason), By: req.by.String(), RunID: schemas.Shown(req.RunID), Action: schemas.Shown(a.Action),
	}
	if _, err := (stream.Publisher{JS: s.js, Trace: req.by.trace()}).Activity(ctx, v.Name(), a.Kind, a.Key, said); err != nil {
		return nil, err
	}
	if !req.by.Role.may("show") {
		return schemas.View{Name: v.Name().String(), Tenant: v.Tenant}, nil
	}
	return schemas.ViewOf(v.SessionRecord), nil
}
