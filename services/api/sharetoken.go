package api

import (
	"context"
	"errors"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/tokenkv"
	"github.com/diapause/diapause/schemas"
)

// sharesWithin is how long it takes at most until a share whose token was made is in the record of its session.
const sharesWithin = time.Hour

// revoke ends a token whose share isn't in a record: it is good for nothing already.
func (s *sharer) revoke(ctx context.Context, store *tokenkv.Store, id string) {
	if _, err := store.Revoke(ctx, id); err != nil && !errors.Is(err, tokenkv.ErrNone) {
		s.tokens.log.Warn("the token of a share that has ended isn't revoked", "id", id, "err", err)
	}
}

// forget revokes the tokens of shares that have ended.
func (s *sharer) forget(ctx context.Context, ended []string) {
	store, err := s.tokens.open(ctx)
	if err != nil {
		s.tokens.log.Warn("the tokens of shares that have ended aren't revoked", "err", err)
		return
	}
	for _, id := range ended {
		s.revoke(ctx, store, id)
	}
}

// revoked ends the shares that end with a token that was revoked by its id: its own, or those that its bearer has made.
func (s *sharer) revoked(ctx context.Context, req request, rec schemas.TokenRecord) {
	if rec.Role == schemas.TokenWatcher {
		s.unshareRevoked(ctx, req, rec)
		return
	}
	made, err := s.madeBy(ctx, rec)
	if err != nil {
		s.tokens.log.Warn("shares that were made with a token that was revoked may still be listed", "id", rec.ID, "err", err)
	}
	req.Reason = "the token that made it has ended"
	for _, share := range made {
		s.unshareRevoked(ctx, req, share)
	}
}

// madeBy lists the tokens of the shares that the bearer of a token has made, but for those that have ended.
func (s *sharer) madeBy(ctx context.Context, rec schemas.TokenRecord) (made []schemas.TokenRecord, err error) {
	store, err := s.tokens.open(ctx)
	if err != nil {
		return nil, err
	}
	all, err := store.List(ctx)
	for _, one := range all {
		if one.Role == schemas.TokenWatcher && one.Of == rec.Digest && one.Revoked.IsZero() {
			made = append(made, one)
		}
	}
	return made, err
}

// unshareRevoked ends the share of a token. Its session may be gone, and the share with it.
func (s *sharer) unshareRevoked(ctx context.Context, req request, rec schemas.TokenRecord) {
	req.Name, req.Share = schemas.Name{Tenant: rec.Tenant, Session: rec.Session}.String(), &schemas.ShareRequest{ID: rec.ID}
	if _, err := s.unshare(ctx, req); err != nil {
		s.tokens.log.Debug("the record of a share whose token was revoked isn't changed", "id", rec.ID, "err", err)
	}
}

// sweep ends the tokens of shares that are in no record any more, as when their session was removed, and forgets those that
// have ended a while ago. So who shares time and again, and removes the sessions, leaves no more tokens than shares hold.
func (s *sharer) sweep(ctx context.Context, store *tokenkv.Store, now time.Time) {
	all, err := store.List(ctx)
	for _, rec := range all {
		if rec.Role == schemas.TokenWatcher && rec.Revoked.IsZero() && now.Sub(rec.Created) >= sharesWithin && !s.recorded(ctx, rec, now) {
			err = errors.Join(err, store.End(ctx, rec))
		}
	}
	if err := errors.Join(err, store.Sweep(ctx)); err != nil {
		s.tokens.log.Warn("tokens of shares that have ended aren't forgotten", "err", err)
	}
}

// recorded reports whether the share of a token is in the record of its session, or that isn't known. The board may be behind: what it
// lacks is looked up.
func (s *sharer) recorded(ctx context.Context, rec schemas.TokenRecord, now time.Time) bool {
	n := schemas.Name{Tenant: rec.Tenant, Session: rec.Session}
	if r, ok := s.sessions.board.get(n); ok {
		if _, holds := sharedBy(r, rec.ID, now); holds {
			return true
		}
	}
	v, err := s.sessions.records.Get(ctx, n)
	if err != nil {
		return !errors.Is(err, statekv.ErrNoSession)
	}
	_, holds := sharedBy(v.SessionRecord, rec.ID, now)
	return holds
}
