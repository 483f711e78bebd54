package gateway

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/ingress"
)

// What the host of a port answers in its session's stead, for pages that the session serves there: the script, and
// the heartbeat that it sends.
const (
	portPresence  = "/.well-known/diapause/presence.js"
	portHeartbeat = "/.well-known/diapause/heartbeat"
	// presenceHeader is one that a browser asks for before it sends it to another origin, which never gets leave.
	presenceHeader = "Diapause-Presence"
)

// visible answers a request for a port that is about the presence of a page, and reports whether it was one.
func (d *doorway) visible(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path != portPresence && r.URL.Path != portHeartbeat {
		return false
	}
	t, err := d.proxy.Target(r)
	if err != nil || t.Prefix != "" {
		return false
	}
	secure(w.Header())
	_, end := ingress.Unread(w, r) // neither has a use for a body
	defer end()
	switch {
	case r.URL.Path == portHeartbeat:
		d.beat(w, r, t)
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		writePresence(w, "same-origin")
	default:
		notAllowed(w, "GET, HEAD")
	}
	return true
}

func notAllowed(w http.ResponseWriter, allow string) {
	w.Header().Set("Allow", allow)
	refusal(http.StatusMethodNotAllowed, "this method isn't for this path", "it takes "+allow).write(w)
}

// beat begins the grace of a session again, for a page of the same origin whose reader may reach the port. It resumes
// nothing, and is no lease.
func (d *doorway) beat(w http.ResponseWriter, r *http.Request, t ingress.Target) {
	if r.Method != http.MethodPost {
		notAllowed(w, http.MethodPost)
		return
	}
	if !ofOwnPage(r) {
		refusal(http.StatusForbidden, "only pages of the port itself say that they are visible", "").write(w)
		return
	}
	from, _ := netip.ParseAddrPort(r.RemoteAddr)
	address := from.Addr().String()
	if !d.reaches.rates.looks(whose(r.Context(), address)) {
		refusal(http.StatusTooManyRequests, "too many requests of one address", "ask less often").write(w)
		return
	}
	grant, err := d.reaches.Authorize(r.Context(), ingress.Ask{Target: t, Class: ingress.Fetch, From: from, HTTP: r})
	if err != nil {
		problem(err).write(w)
		return
	}
	name, err := d.reaches.name(r.Context(), t)
	if err == nil && grant.Anyone {
		if t.Name, err = schemas.ParseName(name); err == nil && !d.proxy.Uses(r.Context(), t) {
			refusal(http.StatusForbidden, "by its policy no request is use of the session", "").write(w)
			return
		}
	}
	if err == nil {
		err = d.heartbeat(name, grant.Caller)
	}
	if err != nil {
		problem(err).write(w)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// ofOwnPage reports whether a page of the same origin has sent a request, or a program has: other origins can't add the header.
func ofOwnPage(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); r.Header.Get(presenceHeader) == "" || site != "" && site != "same-origin" {
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Scheme == schemeOf(r) && strings.EqualFold(u.Host, r.Host)
}

// visibly says that a page of a session's port is visible.
func (g *Gateway) visibly(name, caller string) error {
	s, err := g.client.Session(name)
	if err != nil {
		return schemas.UsageError("%v", err)
	}
	s.Heartbeat(events.Because("a page that is visible, of " + caller))
	return nil
}
