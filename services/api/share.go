package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// sharer lets others watch the terminals of sessions. A share is in two places: its token among the tokens, and what it is
// good for in the record of its session. Both must have it. So a share ends with the compare-and-swap that takes it out of
// the record, and a later session of the same name has none.
type sharer struct {
	sessions *sessions
	tokens   *tokens
}

func (s *sharer) verbs() map[string]handler {
	return map[string]handler{"share": s.share, "unshare": s.unshare, ofShare: s.shared}
}

// share makes a token with which a terminal may be watched. It is no use of the session.
func (s *sharer) share(ctx context.Context, req request) (any, error) {
	if req.Share == nil {
		return nil, schemas.UsageError("the request doesn't say for how long")
	}
	if err := req.Share.Validate(); err != nil {
		return nil, schemas.UsageError("%v", err)
	}
	v, err := s.sessions.named(ctx, req)
	if err != nil {
		return nil, err
	}
	now := time.Now().UTC().Truncate(time.Second)
	share := schemas.Share{By: req.by.String(), Created: now, Until: now.Add(time.Duration(req.Share.For))}
	var of string
	if by := req.by.Token; by != nil { // what a token has made ends with it
		of = by.Digest
		if by.Expires.Before(share.Until) {
			share.Until = by.Expires
		}
	}
	if _, err := decideShare(v.SessionRecord, share, req.Reason, now); err != nil {
		return nil, err
	}
	store, err := s.tokens.open(ctx)
	if err != nil {
		return nil, err
	}
	s.sweep(ctx, store, now)
	token, rec, err := store.Make(ctx, schemas.TokenRecord{
		Role: schemas.TokenWatcher, Tenant: v.Tenant, Session: v.Session, By: share.By, Expires: share.Until, Of: of,
	})
	if err != nil {
		return nil, err
	}
	share.ID = rec.ID
	if err := s.note(ctx, req, v, share, now); err != nil {
		s.revoke(ctx, store, share.ID)
		return nil, err
	}
	return schemas.ShareMade{Share: share, Token: token}, nil
}

// note writes a share into the record of the session that v is.
func (s *sharer) note(ctx context.Context, req request, v statekv.Versioned, share schemas.Share, now time.Time) error {
	uid, reason := v.UID, req.Reason
	req.Reason = "" // the record says which share it is
	for {
		t, err := decideShare(v.SessionRecord, share, reason, now)
		if err != nil {
			return err
		}
		if _, err = s.sessions.ask(ctx, v, req, t); !errors.Is(err, statekv.ErrConflict) {
			return err
		}
		if v, err = s.sessions.named(ctx, req); err != nil {
			return err
		}
		if v.UID != uid {
			return &schemas.APIError{Code: schemas.CodeNoSession, Text: fmt.Sprintf("session %s was removed: another one has its name now", v.Name())}
		}
	}
}

// decideShare gives the transition that adds a share. Those that have ended by their time are dropped with it.
func decideShare(r schemas.SessionRecord, share schemas.Share, reason string, now time.Time) (t schemas.Transition, err error) {
	all := schemas.LiveShares(r.Shares, now)
	switch {
	case !session.Can(r.State, schemas.TShared):
		return t, schemas.StateError(schemas.Reason(r.State), "session %s is %s", r.Name(), r.State)
	case r.Driver != treeDriver:
		return t, schemas.StateError(schemas.ReasonWrongState, "session %s is a container: its terminal can't be shared", r.Name())
	case !r.TTY:
		return t, schemas.StateError(schemas.ReasonWrongState, "session %s has no terminal: it was run without one", r.Name()).WithHint("a session gets one with `run --tty`")
	case len(all) >= schemas.MaxShares:
		return t, schemas.UsageError("share session %s: it is shared %d times already", r.Name(), len(all)).WithHint("end some: `diapause unshare %s ID`", r.Name())
	}
	return schemas.Transition{
		Type: schemas.TShared, Reason: because(fmt.Sprintf("share %s lets others watch until %s", share.ID, share.Until.Format(time.RFC3339)), reason),
		Set: schemas.Set{Shares: append(all, share)},
	}, nil
}

func because(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

// unshare ends shares. It is no use of the session.
func (s *sharer) unshare(ctx context.Context, req request) (any, error) {
	want, reason := schemas.ShareRequest{}, req.Reason
	if req.Share != nil {
		want = *req.Share
	}
	req.Reason = ""
	for {
		v, err := s.sessions.named(ctx, req)
		if err != nil {
			return nil, err
		}
		t, ended, err := decideUnshare(v.SessionRecord, want, reason, time.Now())
		if err != nil || t.Type == "" {
			return schemas.ViewOf(v.SessionRecord), err
		}
		next, err := s.sessions.ask(ctx, v, req, t)
		if errors.Is(err, statekv.ErrConflict) {
			continue // decided again, of what it is now
		}
		if err != nil {
			return nil, err
		}
		s.forget(ctx, ended)
		return schemas.ViewOf(next.SessionRecord), nil
	}
}

// decideUnshare gives the transition that ends shares, and their ids; its type is "" if there is none to end.
func decideUnshare(r schemas.SessionRecord, want schemas.ShareRequest, reason string, now time.Time) (t schemas.Transition, ended []string, err error) {
	live := schemas.LiveShares(r.Shares, now)
	var rest []schemas.Share
	switch {
	case want.ID != "" && want.All:
		return t, nil, schemas.UsageError("unshare: an id and all at once")
	case !session.Can(r.State, schemas.TUnshared):
		return t, nil, schemas.StateError(schemas.Reason(r.State), "session %s is %s", r.Name(), r.State)
	case want.ID != "":
		rest = slices.DeleteFunc(slices.Clone(live), func(s schemas.Share) bool { return s.ID == want.ID })
		if len(rest) == len(live) {
			return t, nil, schemas.UsageError("session %s has no share %.40q", r.Name(), want.ID).WithHint("`diapause show %s` lists them", r.Name())
		}
	case !want.All && len(live) > 1:
		return t, nil, schemas.UsageError("session %s is shared %d times", r.Name(), len(live)).WithHint("say which one, or --all: `diapause show %s` lists them", r.Name())
	}
	if len(live) == 0 {
		return t, nil, nil
	}
	text := "share"
	for _, s := range live {
		if !slices.Contains(rest, s) {
			ended = append(ended, s.ID)
			text += " " + s.ID
		}
	}
	return schemas.Transition{Type: schemas.TUnshared, Reason: because(text+" has ended", reason), Set: schemas.Set{Shares: rest}}, ended, nil
}

// shared says to who has the token of a share where its session is. It is never use of the session. The answer is the same to each
// token that isn't good.
func (s *sharer) shared(ctx context.Context, req request) (any, error) {
	by := req.by.Token
	if by == nil || by.Role != schemas.TokenWatcher {
		return nil, schemas.FailedError(schemas.ReasonDenied, "%s has no share", req.by.Actor())
	}
	v, err := s.sessions.records.Get(ctx, schemas.Name{Tenant: by.Tenant, Session: by.Session})
	if errors.Is(err, statekv.ErrNoSession) {
		return nil, errNoToken
	}
	if err != nil {
		return nil, err
	}
	share, ok := sharedBy(v.SessionRecord, by.ID, time.Now())
	if !ok {
		return nil, errNoToken
	}
	out := schemas.Shared{
		Share: share.ID, Name: v.Name().String(), UID: v.UID, State: v.State, Host: v.Host, Boot: v.Boot, Generation: v.Generation, Until: share.Until,
	}
	if e := v.Exit; e != nil {
		out.Exit = &schemas.ExitStatus{Code: e.Code, Signal: e.Signal, Reason: e.Reason}
	}
	return out, nil
}

// sharedBy gives the share of a session that an id names; false if it has ended, or the session is removed.
func sharedBy(r schemas.SessionRecord, id string, now time.Time) (schemas.Share, bool) {
	live := schemas.LiveShares(r.Shares, now)
	i := slices.IndexFunc(live, func(s schemas.Share) bool { return s.ID == id })
	if i < 0 || r.State == schemas.Deleted {
		return schemas.Share{}, false
	}
	return live[i], true
}
