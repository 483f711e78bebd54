package api

import (
	"context"
	"errors"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/tokenkv"
	"github.com/diapause/diapause/schemas"
)

// logins give browsers what they have in place of tokens.
type logins struct {
	tokens   *tokens
	sessions *sessions
}

func (s *logins) verbs() map[string]handler {
	return map[string]handler{"login": s.login, "login_port": s.port, "logout": s.logout}
}

// bearerOf gives the caller that the record of a valid token proves; false if it is of a later version, or forged.
func bearerOf(rec schemas.TokenRecord) (c Caller, ok bool) {
	c = Caller{Identity: "token:" + rec.ID, Tenant: rec.Tenant, Session: rec.Session, Token: &rec}
	as := rec.Role
	if rec.As != "" {
		as = rec.As
	}
	role, known := roles[as]
	ofOne := rec.Tenant != "" && rec.Session != "" && rec.Port != 0 && rec.Of != ""
	whole := (rec.Tenant != "") != (as == schemas.TokenOperator) && rec.Port == 0 && rec.Of == ""
	switch rec.Role {
	case schemas.TokenLink:
		c.Role, ok = RoleLogin, whole && rec.As != ""
	case schemas.TokenWatcher:
		c.Role, ok = RoleWatch, rec.Tenant != "" && rec.Session != "" && rec.Port == 0 && rec.As == ""
	case schemas.TokenCode:
		c.Role, ok = RoleLogin, ofOne && rec.As != ""
	case schemas.TokenPort:
		c.Role, ok = RolePort, ofOne && rec.As != ""
	case schemas.TokenLogin:
		c.Role, ok = role, whole && rec.As != ""
	default:
		c.Role, ok = role, whole && rec.As == ""
	}
	return c, ok && known
}

// confined reports whether a caller is held to the sessions of one tenant. The cookie of a port's host is for one
// session in any case, and may be an operator's.
func (c Caller) confined() bool {
	return c.Tenant != "" && (c.Token == nil || c.Token.As != schemas.TokenOperator)
}

// login takes what is good for once, a link or the code for a port's host, and gives a browser what it has from then on.
// What is used in the wrong place is used up as well.
func (s *logins) login(ctx context.Context, req request) (any, error) {
	if req.by.Token == nil || req.by.bearer == "" {
		return nil, schemas.UsageError("a login takes the code of a link")
	}
	store, err := s.tokens.open(ctx)
	if err != nil {
		return nil, err
	}
	from, err := store.Consume(ctx, req.by.bearer)
	if errors.Is(err, tokenkv.ErrNone) {
		return nil, errNoToken
	}
	if err != nil {
		return nil, err
	}
	rec, ok := decideLogin(from, req.Name, req.Reach, time.Now())
	if !ok {
		s.tokens.log.Warn("a code was used in another place than it is for", "id", from.ID, "role", from.Role, "session", from.Session, "port", from.Port, "at", req.Name)
		return nil, errNoToken
	}
	if from.Role == schemas.TokenLink {
		if err := store.Sweep(ctx); err != nil {
			s.tokens.log.Warn("tokens that have expired aren't forgotten", "err", err)
		}
	}
	token, rec, err := store.Make(ctx, rec)
	if err != nil {
		return nil, err
	}
	s.tokens.log.Info("browser logged in", "id", rec.ID, "role", rec.Role, "as", rec.As, "tenant", rec.Tenant, "session", rec.Session, "port", rec.Port)
	v := rec.View()
	v.Token = token
	return v, nil
}

// decideLogin gives the record that is made for what was used up; false if that isn't for this place: the port of a
// session, or the gateway itself.
func decideLogin(from schemas.TokenRecord, name string, at *schemas.ReachRequest, now time.Time) (rec schemas.TokenRecord, ok bool) {
	rec = schemas.TokenRecord{As: from.As, Tenant: from.Tenant, Session: from.Session, By: "token:" + from.ID}
	switch from.Role {
	case schemas.TokenLink:
		rec.Role, rec.Expires = schemas.TokenLogin, now.UTC().Add(time.Duration(from.Long)).Truncate(time.Second)
		return rec, name == "" && at == nil
	case schemas.TokenCode:
		rec.Role, rec.Port, rec.Of = schemas.TokenPort, from.Port, from.Of
		rec.Expires = now.UTC().Add(schemas.PortFor).Truncate(time.Second)
		n, err := schemas.ParseName(name)
		return rec, err == nil && at != nil && at.Port == from.Port && n.Tenant == from.Tenant && n.Session == from.Session
	}
	return rec, false
}

// port gives a browser that is logged in the code for the host of a port, if it may reach that.
func (s *logins) port(ctx context.Context, req request) (any, error) {
	by := req.by.Token
	if by == nil || by.Role != schemas.TokenLogin {
		return nil, schemas.FailedError(schemas.ReasonDenied, "only a browser that is logged in gets a cookie")
	}
	if req.Reach == nil || req.Reach.Port == 0 {
		return nil, schemas.UsageError("the request names no port")
	}
	v, err := s.reached(ctx, req)
	if err != nil {
		return nil, err
	}
	store, err := s.tokens.open(ctx)
	if err != nil {
		return nil, err
	}
	token, rec, err := store.Make(ctx, schemas.TokenRecord{
		Role: schemas.TokenCode, As: by.As, Tenant: v.Tenant, Session: v.Session, Port: req.Reach.Port, Of: by.Digest, By: req.by.Actor(),
		Expires: time.Now().UTC().Add(schemas.CodeFor).Truncate(time.Second),
	})
	if err != nil {
		return nil, err
	}
	out := rec.View()
	out.Token = token
	return out, nil
}

// reached gives the session of a port that the caller may reach with a browser.
func (s *logins) reached(ctx context.Context, req request) (statekv.Versioned, error) {
	v, err := s.sessions.named(ctx, req)
	if err != nil {
		return v, err
	}
	if schemas.AccessOf(v.Exposed, req.Reach.Port) == schemas.AccessToken {
		return v, errTokenAlone
	}
	return v, mayReach(req.by, v.SessionRecord, schemas.ReachRequest{Port: req.Reach.Port})
}

var errTokenAlone = schemas.FailedError(schemas.ReasonDenied, "the port is for bearers of tokens alone").
	WithHint("`diapause expose NAME PORT --private` lets logins in")

// logout ends the login that asks, and with it the cookies of ports that it gave, and its shares.
func (s *logins) logout(ctx context.Context, req request) (any, error) {
	by := req.by.Token
	if by == nil || by.Role != schemas.TokenLogin {
		return nil, schemas.FailedError(schemas.ReasonDenied, "only a browser that is logged in logs out")
	}
	store, err := s.tokens.open(ctx)
	if err != nil {
		return nil, err
	}
	rec, err := store.Revoke(ctx, by.ID)
	if err != nil {
		return nil, err
	}
	s.tokens.revoked(ctx, req, rec)
	return rec.View(), nil
}
