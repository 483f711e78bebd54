package gateway

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/ingress"
)

// Ports is how a gateway leads to ports of sessions.
type Ports struct {
	// Ingress has all but who may reach a port, which the gateway finds out.
	Ingress ingress.Options
	// NoPublic has ports that are public take a token all the same.
	NoPublic bool
}

// The bounds of what is believed of who may reach a port. After that the API is asked again, also for a request that
// is still open then.
const (
	reachFor   = 5 * time.Second
	publicFor  = 2 * time.Second
	recheck    = 15 * time.Second
	maxReaches = 10_000
	// maxCookies is how many cookies of one name are tried: another host of the site may have planted some.
	maxCookies = 4
)

// reaches finds out who may reach ports of sessions. It may be used from many goroutines at once.
type reaches struct {
	api      *events.API
	waker    ingress.Waker
	domain   string
	noPublic bool
	rates    *rates
	every    time.Duration // between two looks at a request that is open

	mu     sync.Mutex
	known  map[digest]belief // of bearers, by credential and port
	public map[string]belief // by port
}

// belief is what was found out last.
type belief struct {
	until  time.Time
	caller string
	access schemas.Access
}

// credential is what a request for a port proves its sender by.
type credential struct {
	text string
	page bool // it is the cookie of the port's host
}

// tokenHeader has a token beside what is the session's own in Authorization.
const tokenHeader = schemas.HeaderToken

// credentials gives what a request has: its token, or else its cookies for the port's host. The path form has no
// cookies: it is no origin of its own.
func credentials(r *http.Request, t ingress.Target) (all []credential) {
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if text = strings.TrimSpace(text); strings.EqualFold(scheme, "Bearer") && strings.HasPrefix(text, schemas.TokenPrefix) {
		return []credential{{text: text}}
	}
	if text := r.Header.Get(tokenHeader); text != "" {
		return []credential{{text: text}}
	}
	if t.Prefix != "" {
		return nil
	}
	for _, c := range r.CookiesNamed(cookieName(r, portCookie)) {
		if len(all) < maxCookies && strings.HasPrefix(c.Value, schemas.TokenPrefix) {
			all = append(all, credential{text: c.Value, page: true})
		}
	}
	return all
}

// portCookie is the cookie for a port's host.
const portCookie = "diapause-port"

var errNoLogin = schemas.FailedError(schemas.ReasonNoToken, "the port is for those who prove who they are").
	WithHint("send `Authorization: Bearer TOKEN`, or log in with a browser; `diapause expose` lets others")

// Authorize implements ingress.Authorizer. A token that isn't one is refused, also where none is needed.
func (s *reaches) Authorize(ctx context.Context, a ingress.Ask) (ingress.Grant, error) {
	grant := ingress.Grant{Strip: ingress.StripTokens}
	if a.HTTP == nil {
		return grant, errNoLogin
	}
	address := a.From.Addr().String()
	has := credentials(a.HTTP, a.Target)
	if len(has) > 0 && !has[0].page {
		b, err := s.reach(ctx, a.Target, has[0], address)
		grant.Caller = b.caller
		return grant, err
	}
	b, why := s.byCookie(ctx, a, has, address)
	if why == nil {
		grant.Caller = b.caller
		return grant, nil
	}
	if a.Target.Prefix != "" || s.noPublic {
		return grant, why
	}
	access, err := s.access(ctx, a.Target, address)
	switch {
	case err != nil:
		return grant, err
	case access != schemas.AccessPublic:
		return grant, why
	}
	grant.Caller, grant.Anyone = "anyone at "+address, true
	return grant, nil
}

// byCookie asks whether one of the cookies for a port's host lets a browser reach it, for a page of its session.
func (s *reaches) byCookie(ctx context.Context, a ingress.Ask, cookies []credential, address string) (b belief, why error) {
	why = errNoLogin
	if len(cookies) > 0 && ingress.ForeignToCookie(s.domain, a) {
		return b, schemas.FailedError(schemas.ReasonDenied, "pages of other sites may not use the ports of sessions")
	}
	for _, c := range cookies {
		b, err := s.reach(ctx, a.Target, c, address)
		if err == nil {
			return b, nil
		}
		if schemas.ReasonOf(err) != schemas.ReasonNoToken {
			why = err
		}
	}
	return b, why
}

// reach asks whether the bearer of a credential may reach a port.
func (s *reaches) reach(ctx context.Context, t ingress.Target, c credential, address string) (belief, error) {
	key := sha256.Sum256([]byte(strings.Join([]string{c.text, strconv.FormatBool(c.page), portKey(t)}, " ")))
	s.mu.Lock()
	b, ok := s.known[key]
	s.mu.Unlock()
	if ok && time.Now().Before(b.until) {
		return b, nil
	}
	f := from{token: c.text, address: whose(ctx, address)}
	switch s.rates.tries(&f) {
	case tooMany:
		return b, &schemas.APIError{Code: schemas.CodeFailed, Text: "too many tokens of one address that aren't any", Hint: "ask less often"}
	case unknown:
		return b, errNoToken
	}
	defer s.rates.drop(f)
	name, err := s.name(ctx, t)
	if err != nil {
		return b, err
	}
	ctx, cancel := context.WithTimeout(events.WithToken(ctx, c.text), askWait)
	defer cancel()
	var got schemas.Reach
	err = s.api.Ask(ctx, "reach", schemas.Request{Name: name, Actor: "ingress:" + address, Reach: &schemas.ReachRequest{Port: t.Port, Page: c.page}}, &got)
	if reason := schemas.ReasonOf(err); err == nil || reason == schemas.ReasonNoToken || reason == schemas.ReasonDenied {
		s.rates.answered(f, reason != schemas.ReasonNoToken)
	}
	if err != nil {
		return b, err
	}
	b = belief{until: time.Now().Add(reachFor), caller: got.Actor, access: got.Access}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxReaches {
		clear(s.known)
	}
	s.known[key] = b
	return b, nil
}

var errNoToken = schemas.FailedError(schemas.ReasonNoToken, "no such token, or it has expired or was revoked").WithHint("`diapause token create` makes one")

// name gives the session of a port.
func (s *reaches) name(ctx context.Context, t ingress.Target) (string, error) {
	if t.UID == "" {
		return t.Name.String(), nil
	}
	v, err := s.waker.Look(ctx, t)
	if schemas.CodeOf(err) == schemas.CodeNoSession {
		return "", errDenied // as of one that is another's
	}
	return v.Name, err
}

var errDenied = schemas.FailedError(schemas.ReasonDenied, "the port isn't for the bearer of this token")

// access says whether a port is public. One of a session that isn't there is private.
func (s *reaches) access(ctx context.Context, t ingress.Target, address string) (schemas.Access, error) {
	key := portKey(t)
	s.mu.Lock()
	b, ok := s.public[key]
	s.mu.Unlock()
	if ok && time.Now().Before(b.until) {
		return b.access, nil
	}
	if !s.rates.looks(whose(ctx, address)) {
		return "", &schemas.APIError{Code: schemas.CodeFailed, Text: "too many requests of one address", Hint: "ask less often"}
	}
	v, err := s.waker.Look(ctx, t)
	if err != nil && schemas.CodeOf(err) != schemas.CodeNoSession {
		return "", err
	}
	if err != nil || schemas.AccessOf(v.Exposed, t.Port) != schemas.AccessPublic {
		return schemas.AccessPrivate, nil
	}
	b = belief{until: time.Now().Add(publicFor), access: schemas.AccessPublic}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.public) >= maxReaches {
		clear(s.public)
	}
	s.public[key] = b
	return b.access, nil
}

func portKey(t ingress.Target) string {
	return fmt.Sprintf("%s %s %d", t.Name.Key(), t.UID, t.Port)
}

// doorway leads requests to ports of sessions.
type doorway struct {
	reaches *reaches
	proxy   *ingress.Proxy
	api     *allowed
	domain  string
	page    string // the gateway's own host name, where browsers log in; none if empty
	public  string // the URL of that, if it isn't the one of requests
	// heartbeat begins the grace of a session again.
	heartbeat func(name, caller string) error
}

func (g *Gateway) doorway(p Ports, api *allowed, user, public string) (*doorway, error) {
	o := p.Ingress
	if o.Domain == "" {
		o.Domain = ingress.DefaultDomain
	}
	for _, h := range api.hosts {
		if _, err := ingress.Parse(o.Domain, h, ""); err == nil {
			return nil, fmt.Errorf("host %q is the name of a session's port", h)
		}
	}
	s := &reaches{
		api: events.NewAPI(g.nc, events.Options{By: "ingress", User: user}), waker: o.Waker, domain: o.Domain, noPublic: p.NoPublic, rates: api.rates, every: recheck,
		known: map[digest]belief{}, public: map[string]belief{},
	}
	d := &doorway{reaches: s, api: api, domain: o.Domain, public: public, heartbeat: g.visibly}
	switch { // the first that browsers reach it by
	case len(api.hosts) > 1:
		d.page = api.hosts[1]
	case o.Domain == ingress.DefaultDomain:
		d.page = ingress.DefaultDomain
	}
	o.Authorizer, o.Log, o.Hosts, o.Refused = s, g.log, api.hosts, d.send
	d.proxy = ingress.New(o)
	return d, nil
}

// takes reports whether a request is for a port of a session: by its host name, or at any other of the gateway's by the
// beginning of its path.
func (d *doorway) takes(r *http.Request) bool {
	name := hostName(r.Host)
	if slices.Contains(d.api.hosts, name) || d.api.addressed(r.Host) || name == d.domain {
		return strings.HasPrefix(r.URL.EscapedPath(), "/s/")
	}
	return strings.HasSuffix(name, "."+d.domain)
}

// ServeHTTP implements http.Handler. Who may reach a port is looked at again while the request is open.
func (d *doorway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Time{}) // those of an answer of the API before, on a connection that was kept
	_ = c.SetWriteDeadline(time.Time{})
	if r.URL.Path == portLogin {
		if t, err := d.proxy.Target(r); err == nil && t.Prefix == "" {
			_, end := ingress.Unread(w, r)
			defer end()
			d.come(w, r, t)
			return
		}
	}
	if d.visible(w, r) {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	var again *time.Timer
	var mu sync.Mutex
	defer func() {
		mu.Lock()
		defer mu.Unlock()
		again.Stop()
	}()
	mu.Lock()
	again = time.AfterFunc(d.reaches.every, func() {
		if !d.still(ctx, r) {
			cancel()
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() == nil {
			again.Reset(d.reaches.every)
		}
	})
	mu.Unlock()
	d.proxy.ServeHTTP(w, r.WithContext(ctx))
}

// still reports whether the sender of a request may still reach its port. While that can't be found out it may.
func (d *doorway) still(ctx context.Context, r *http.Request) bool {
	t, err := d.proxy.Target(r)
	if err != nil {
		return true // it is refused anyway
	}
	from, _ := netip.ParseAddrPort(r.RemoteAddr)
	_, err = d.reaches.Authorize(ctx, ingress.Ask{Target: t, Class: ingress.Classify(r), From: from, HTTP: r})
	switch schemas.ReasonOf(err) {
	case schemas.ReasonNoToken, schemas.ReasonDenied:
		return false
	}
	return true
}
