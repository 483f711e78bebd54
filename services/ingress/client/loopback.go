package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

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
	if a.HTTP != nil && l.foreign(a) {
		return ingress.Grant{}, denied("pages of other sites may not use the ports of sessions")
	}
	return ingress.Grant{Caller: "this machine"}, nil
}

func denied(format string, args ...any) error {
	return &schemas.APIError{Code: schemas.CodeFailed, Reason: schemas.ReasonDenied, Text: fmt.Sprintf(format, args...)}
}

// foreign reports whether a browser makes a request for a page that isn't the session's own, other than by
// following a link. Sessions of one tenant are one site to a browser, and strangers to each other here.
func (l Loopback) foreign(a ingress.Ask) bool {
	h := a.HTTP.Header
	reads := a.HTTP.Method == http.MethodGet || a.HTTP.Method == http.MethodHead
	dest := h.Get("Sec-Fetch-Dest")
	link := reads && h.Get("Sec-Fetch-Mode") == "navigate" && (dest == "" || dest == "document") // in no frame
	switch h.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return false
	case "cross-site":
		return !link
	}
	from := h.Get("Origin")
	if from == "" || link {
		return false // no browser, or one that reads without leave to see the answer
	}
	u, err := url.Parse(from)
	if err != nil {
		return true
	}
	if strings.EqualFold(u.Host, a.HTTP.Host) {
		return false
	}
	t, err := ingress.Parse(l.Domain, u.Host, "")
	return err != nil || t.Name != a.Target.Name || t.UID != a.Target.UID
}
