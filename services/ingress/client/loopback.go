package client

import (
	"context"
	"fmt"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/ingress"
)

// Loopback lets those of this machine reach what the proxy's own credentials may. Pages of other sites, which
// browsers of this machine show, are refused: they may lead here by a link, and no more.
type Loopback struct {
	Domain string // of the proxy
}

// Authorize implements ingress.Authorizer.
func (l Loopback) Authorize(_ context.Context, a ingress.Ask) (ingress.Grant, error) {
	if !a.From.Addr().Unmap().IsLoopback() {
		return ingress.Grant{}, denied("%s isn't this machine", a.From.Addr())
	}
	if a.HTTP != nil && ingress.Foreign(l.Domain, a) {
		return ingress.Grant{}, denied("pages of other sites may not use the ports of sessions")
	}
	return ingress.Grant{Caller: "this machine", Strip: ingress.StripTokens}, nil
}

func denied(format string, args ...any) error {
	return &schemas.APIError{Code: schemas.CodeFailed, Reason: schemas.ReasonDenied, Text: fmt.Sprintf(format, args...)}
}
