package gateway

import (
	_ "embed"
	"net/http"
	"regexp"
	"strings"
)

// presenceScript is for pages of others: it says each minute that they are visible.
//
//go:embed presence.js
var presenceScript []byte

const presencePath = "/presence.js"

// heartbeats are the paths that the script asks.
var heartbeats = regexp.MustCompile(`^/api/sessions/[^/]+/heartbeat$`)

// presence serves the script to pages of any origin: it says nothing that isn't in the program anyway.
func (g *Gateway) presence(mux *http.ServeMux) {
	mux.HandleFunc("GET "+presencePath, func(w http.ResponseWriter, _ *http.Request) { writePresence(w, "cross-origin") })
}

// writePresence answers with the script, for pages of an origin that may load it.
func writePresence(w http.ResponseWriter, whose string) {
	h := w.Header()
	h.Set("Content-Type", "text/javascript; charset=utf-8")
	h.Set("Cross-Origin-Resource-Policy", whose)
	h.Set("Cache-Control", "public, max-age=3600")
	_, _ = w.Write(presenceScript) // the client is gone, then
}

// isPresence reports whether a request is a heartbeat that a page of any origin may send. What makes that safe is its token:
// a page has to know it, and a browser asks first (preflight) before it sends the header. Nothing that a browser adds by
// itself counts here, so that no page can use what its visitor may do.
func isPresence(r *http.Request) bool {
	if !heartbeats.MatchString(r.URL.Path) {
		return false
	}
	if r.Method == http.MethodOptions {
		return r.Header.Get("Access-Control-Request-Method") == http.MethodPost
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return r.Method == http.MethodPost && strings.EqualFold(scheme, "Bearer") && token != ""
}

// presenceAllowed tells a browser that any page may send heartbeats with a token, and without what the browser knows of its
// user. It reports whether the request was only about that.
func presenceAllowed(w http.ResponseWriter, r *http.Request) bool {
	if r.Header.Get("Origin") == "" || !isPresence(r) {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*") // never with Access-Control-Allow-Credentials
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	if r.Method != http.MethodOptions {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "POST")
	h.Set("Access-Control-Allow-Headers", "Authorization")
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}
