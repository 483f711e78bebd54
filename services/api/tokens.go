package api

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/events/tokenkv"
	"github.com/diapause/diapause/schemas"
)

// tokens tells whose a token is, and answers the verbs of tokens.
type tokens struct {
	js    jetstream.JetStream
	names stream.Names
	log   *slog.Logger
	// revoked ends the shares that end with a token that was revoked.
	revoked func(context.Context, request, schemas.TokenRecord)

	mu    sync.Mutex
	store *tokenkv.Store // nil before it is needed: the streams may be those of a version that knows no tokens
}

func (s *tokens) verbs() map[string]handler {
	return map[string]handler{whoami: s.whoami, "token_create": s.create, "token_ls": s.list, "token_revoke": s.revoke}
}

// roles are what the roles of tokens come to.
var roles = map[schemas.TokenRole]Role{
	schemas.TokenPublisher: RoleReport, schemas.TokenReader: RoleLook, schemas.TokenClient: RoleClient, schemas.TokenOwner: RoleOwner, schemas.TokenOperator: RoleAny,
	schemas.TokenWatcher: RoleWatch,
}

var errNoToken = schemas.FailedError(schemas.ReasonNoToken, "no such token, or it has expired or was revoked").
	WithHint("`diapause token create` makes one")

// bearer gives the caller that a token proves.
func (s *tokens) bearer(ctx context.Context, token string) (Caller, error) {
	ctx, cancel := context.WithTimeout(ctx, defaultWait)
	defer cancel()
	store, err := s.open(ctx)
	if err != nil {
		return Caller{}, err
	}
	rec, err := store.Check(ctx, token, func(err error) { s.log.Warn("the use of a token isn't written down", "err", err) })
	if errors.Is(err, tokenkv.ErrNone) {
		return Caller{}, errNoToken
	}
	if err != nil {
		return Caller{}, err
	}
	c, ok := bearerOf(rec)
	if !ok {
		return Caller{}, errNoToken
	}
	c.bearer = token
	return c, nil
}

// open finds the bucket.
func (s *tokens) open(ctx context.Context) (*tokenkv.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store != nil {
		return s.store, nil
	}
	store, err := tokenkv.Open(ctx, s.js, s.names)
	if errors.Is(err, tokenkv.ErrNoBucket) {
		return nil, schemas.FailedError(schemas.ReasonNoServer, "there are no tokens: %v", err).WithHint("`diapause nats-streams` makes the bucket")
	}
	s.store = store
	return store, err
}

func (s *tokens) whoami(_ context.Context, req request) (any, error) {
	me := schemas.WhoAmI{Actor: req.by.Actor()}
	if t := req.by.Token; t != nil {
		me.Role, me.Tenant, me.Session, me.Expires = t.Role, t.Tenant, t.Session, t.Expires
	}
	if t := req.by.Token; t != nil && t.As != "" {
		me.Role = t.As
	}
	return me, nil
}

func (s *tokens) create(ctx context.Context, req request) (any, error) {
	store, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	if req.Token == nil {
		return nil, schemas.UsageError("the request says nothing of a token")
	}
	if err := req.Token.Validate(req.Tenant); err != nil {
		return nil, schemas.UsageError("%v", err)
	}
	if err := store.Sweep(ctx); err != nil {
		s.log.Warn("tokens that have expired aren't forgotten", "err", err)
	}
	token, rec, err := store.Create(ctx, req.Tenant, *req.Token, req.by.String())
	if err != nil {
		return nil, err
	}
	s.log.Info("token made", "id", rec.ID, "role", rec.Role, "tenant", rec.Tenant, "session", rec.Session, "by", rec.By)
	v := rec.View()
	v.Token = token
	return v, nil
}

func (s *tokens) list(ctx context.Context, req request) (any, error) {
	store, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	all, err := store.List(ctx)
	out := []schemas.TokenView{}
	for _, rec := range all {
		if req.Tenant == "" || rec.Tenant == req.Tenant {
			out = append(out, rec.View())
		}
	}
	return out, err
}

func (s *tokens) revoke(ctx context.Context, req request) (any, error) {
	store, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	if req.Token == nil || req.Token.ID == "" {
		return nil, schemas.UsageError("the request names no token")
	}
	if strings.HasPrefix(req.Token.ID, schemas.TokenPrefix) { // not to be shown or logged
		return nil, schemas.UsageError("that is a token, not its id").WithHint("`diapause token ls` lists the ids")
	}
	rec, err := store.Revoke(ctx, req.Token.ID)
	if errors.Is(err, tokenkv.ErrNone) {
		return nil, schemas.UsageError("no token has the id %.40q", req.Token.ID).WithHint("`diapause token ls` lists them")
	}
	if err != nil {
		return nil, err
	}
	s.log.Info("token revoked", "id", rec.ID, "by", req.by.String())
	s.revoked(ctx, req, rec)
	return rec.View(), nil
}
