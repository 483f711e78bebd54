package gateway

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/ingress"
)

// The way of a browser without a cookie for a port's host: that host remembers in a cookie of its own where the browser
// was going (send), and sends it to the gateway's page, which is logged in and gets a code for that port; with the code
// it comes back (come), and the host gives it its cookie.
const (
	// portLogin is where it comes back to. The session never gets a request for it.
	portLogin   = "/.well-known/diapause/login"
	stateCookie = "diapause-state"
	stateFor    = 10 * time.Minute
	maxGoing    = 1500 // bytes of where it was going; beyond that it goes to the first page
)

// send answers a navigation of a browser that has no cookie. Who has come for anything else is refused.
func (d *doorway) send(w http.ResponseWriter, a ingress.Ask, err error) bool {
	r := a.HTTP
	if schemas.ReasonOf(err) != schemas.ReasonNoToken || a.Target.Prefix != "" || d.page == "" || !navigates(r) || r.URL.Path == portLogin {
		return false
	}
	if text := credentials(r, a.Target); len(text) > 0 && !text[0].page {
		return false // a program with a token that isn't one
	}
	going := r.URL.RequestURI()
	if len(going) > maxGoing || !ownPath(going) {
		going = "/"
	}
	state := rand.Text()
	c := cookie(r, stateCookie, state+"."+base64.RawURLEncoding.EncodeToString([]byte(going)), time.Now().Add(stateFor), http.SameSiteLaxMode)
	http.SetCookie(w, &c)
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	// What the page is to know is in the fragment, which no server gets.
	page := d.public
	switch {
	case page != "" && ofMachine(hostName(r.Host)):
		page = schemeOf(r) + "://" + withPort("localhost", r) // the public URL is another way, which has no such names
	case page == "":
		page = schemeOf(r) + "://" + withPort(d.page, r)
	}
	h.Set("Location", page+loginPage+"#"+url.Values{"host": {r.Host}, "state": {state}}.Encode())
	w.WriteHeader(http.StatusSeeOther)
	return true
}

// ofMachine reports whether a browser takes a host name for its own machine's.
func ofMachine(name string) bool { return strings.HasSuffix(name, ".localhost") }

// navigates reports whether a person opens a page, in no frame: a page of others could have this done unseen there.
func navigates(r *http.Request) bool {
	dest := r.Header.Get("Sec-Fetch-Dest")
	return r.Method == http.MethodGet && ingress.Classify(r) == ingress.Navigation && (dest == "" || dest == "document")
}

// ownPath reports whether a browser that is sent to a path stays on its host.
func ownPath(path string) bool {
	return strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "//") && !strings.HasPrefix(path, `/\`) && !strings.ContainsAny(path, "\r\n\t")
}

// come takes the code that a browser comes back with, for the host that it has come to alone.
func (d *doorway) come(w http.ResponseWriter, r *http.Request, t ingress.Target) {
	secure(w.Header())
	q := r.URL.Query()
	going, ok := startedWith(r, q.Get("state"))
	if r.Method != http.MethodGet || !ok {
		refusal(http.StatusBadRequest, "this login isn't this browser's", "open the page again").write(w)
		return
	}
	from, _ := netip.ParseAddrPort(r.RemoteAddr)
	v, err := d.reaches.redeem(r.Context(), t, q.Get("code"), from.Addr().String())
	if err != nil {
		problem(err).write(w)
		return
	}
	for _, c := range []http.Cookie{
		cookie(r, stateCookie, "", time.Time{}, http.SameSiteLaxMode),
		cookie(r, portCookie, v.Token, v.Expires, http.SameSiteLaxMode),
	} {
		http.SetCookie(w, &c)
	}
	w.Header().Set("Location", going)
	w.WriteHeader(http.StatusSeeOther)
}

// startedWith gives where a browser was going that was sent away with a state.
func startedWith(r *http.Request, state string) (going string, ok bool) {
	all := r.CookiesNamed(cookieName(r, stateCookie))
	for _, c := range all[:min(len(all), maxCookies)] {
		had, path, _ := strings.Cut(c.Value, ".")
		data, err := base64.RawURLEncoding.DecodeString(path)
		if state != "" && subtle.ConstantTimeCompare([]byte(had), []byte(state)) == 1 && err == nil && ownPath(string(data)) {
			return string(data), true
		}
	}
	return "", false
}

// redeem gives the cookie of a port's host for a code.
func (s *reaches) redeem(ctx context.Context, t ingress.Target, code, address string) (v schemas.TokenView, err error) {
	f := from{token: code, address: whose(ctx, address)}
	switch s.rates.tries(&f) {
	case tooMany:
		return v, refusal(http.StatusTooManyRequests, "too many codes of one address", "ask less often")
	case unknown:
		return v, errNoToken
	}
	defer s.rates.drop(f)
	name, err := s.name(ctx, t)
	if err != nil {
		return v, err
	}
	ctx, cancel := context.WithTimeout(events.WithToken(ctx, code), askWait)
	defer cancel()
	err = s.api.Ask(ctx, "login", schemas.Request{Name: name, Actor: "ingress:" + address, Reach: &schemas.ReachRequest{Port: t.Port}}, &v)
	if reason := schemas.ReasonOf(err); reason == schemas.ReasonNoToken || reason == schemas.ReasonDenied {
		s.rates.answered(f, false)
	}
	if err == nil && v.Role != schemas.TokenPort {
		err = errNoToken
	}
	return v, err
}
