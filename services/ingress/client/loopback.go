package client

import (
	"context"
	"fmt"
	"net"
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
	if a.HTTP != nil && l.foreign(a.HTTP) {
		return ingress.Grant{}, denied("pages of other sites may not use the ports of sessions")
	}
	return ingress.Grant{Caller: "this machine"}, nil
}

func denied(format string, args ...any) error {
	return &schemas.APIError{Code: schemas.CodeFailed, Reason: schemas.ReasonDenied, Text: fmt.Sprintf(format, args...)}
}

// foreign reports whether a browser makes a request for a page of another site, other than by following a link.
func (l Loopback) foreign(r *http.Request) bool {
	h := r.Header
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch h.Get("Sec-Fetch-Site") {
	case "cross-site":
		return !reads || h.Get("Sec-Fetch-Mode") != "navigate"
	case "same-origin", "same-site", "none":
		return false
	}
	from := h.Get("Origin")
	if from == "" {
		return false // no browser, or one that reads without leave to see the answer
	}
	u, err := url.Parse(from)
	if err != nil {
		return true
	}
	host := strings.ToLower(u.Hostname())
	return host != l.Domain && !strings.HasSuffix(host, "."+l.Domain) && host != withoutPort(r.Host)
}

func withoutPort(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}
