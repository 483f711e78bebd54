package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/gateway/console"
	"github.com/diapause/diapause/services/ingress"
)

// The bounds of a request. Those of headers are the server's (serve.go).
const (
	maxBody  = 512 << 10        // less than a message of NATS has room for
	bodyWait = 30 * time.Second // for all of it
	// Those of a body whose sender hasn't shown a token: a login.
	maxOpen  = 4 << 10
	openWait = 5 * time.Second
)

// allowed are the names that the gateway answers to, and the pages that may ask it.
type allowed struct {
	hosts   []string
	origins []string
	rates   *rates
	// bodyWait is how long a body may take.
	bodyWait time.Duration
	// knows refuses a token that the API doesn't know, which it asks.
	knows func(context.Context, from) *Problem
}

// allow reads the lists.
func allow(o Outside, hosts, origins []string) (*allowed, error) {
	a := &allowed{hosts: []string{"localhost"}, rates: newRates(), bodyWait: bodyWait}
	if o.public != nil {
		a.hosts = append(a.hosts, hostName(o.public.Host)) // the first: it is where browsers log in
	}
	for _, h := range hosts {
		if h == "" || strings.ContainsAny(h, "/:@*") {
			return nil, fmt.Errorf("host %q: want a name such as diapause.example.com", h)
		}
		a.hosts = append(a.hosts, strings.ToLower(h))
	}
	for _, o := range origins {
		u, err := url.Parse(o)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Scheme+"://"+u.Host != o {
			return nil, fmt.Errorf("origin %q: want one such as https://app.example.com", o)
		}
		a.origins = append(a.origins, strings.ToLower(o))
	}
	return a, nil
}

// whose asks the API whether it knows a token.
func (g *Gateway) whose(ctx context.Context, f from) *Problem {
	err := g.ask(context.WithValue(ctx, callerKey{}, f), "whoami", schemas.Request{}, new(schemas.WhoAmI))
	if err == nil {
		return nil
	}
	return problem(err)
}

// guard bounds and checks each request before it reaches next.
func (a *allowed) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		admitted, end := ingress.Unread(w, r)
		defer end()
		if p := a.refuses(r); p != nil {
			p.write(w)
			return
		}
		if a.preflight(w, r) || !a.listed(r) && presenceAllowed(w, r) {
			return
		}
		from, p := a.identify(r)
		defer a.rates.drop(from)
		if p == nil && hasBody(r) {
			p = a.proven(r, from)
		}
		if p == nil {
			admitted()
			if !isImport(r) {
				p = a.readBody(w, r)
			}
		}
		if p != nil {
			p.write(w)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(context.WithValue(r.Context(), callerKey{}, from), requestKey{}, r)))
	})
}

func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

// proven refuses the sender of a body before it is read, if the API doesn't know that sender: a stranger makes the gateway hold nothing. A
// login proves by its body who asks, also of a browser whose login has ended; so the bodies of open paths are small.
func (a *allowed) proven(r *http.Request, f from) *Problem {
	if open(r) || a.rates.knows(f.token) {
		return nil
	}
	return a.knows(r.Context(), f)
}

// secure sets the headers of every answer.
func secure(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	h.Add("Vary", "Origin")
}

// refuses says what is wrong with where a request is addressed and who has made a browser send it.
func (a *allowed) refuses(r *http.Request) *Problem {
	if !a.addressed(r.Host) {
		return refusal(http.StatusMisdirectedRequest, fmt.Sprintf("no gateway for the host %.80q", r.Host), "--host allows a name")
	}
	if !a.sameOrigin(r) && !a.listed(r) && !isPresence(r) {
		return refusal(http.StatusForbidden, "pages of another origin may not ask", "--origin allows one")
	}
	return nil
}

// addressed reports whether a Host header names this gateway. An address does: the names of others are what
// pages use that have a browser ask it unawares.
func (a *allowed) addressed(host string) bool {
	name := hostName(host)
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return slices.Contains(a.hosts, name)
}

// hostName is the name in a Host header: without its port, in lower case.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
}

// sameOrigin reports whether no page of another origin has made a browser send the request.
func (a *allowed) sameOrigin(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
	}
	safe := r.Method == http.MethodGet || r.Method == http.MethodHead
	site := r.Header.Get("Sec-Fetch-Site")
	return safe || site == "" || site == "same-origin" || site == "none"
}

func (a *allowed) listed(r *http.Request) bool {
	return slices.Contains(a.origins, strings.ToLower(r.Header.Get("Origin")))
}

// preflight lets pages of the listed origins ask, and reports whether the request was only about that.
func (a *allowed) preflight(w http.ResponseWriter, r *http.Request) bool {
	if !a.listed(r) {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
	h.Set("Access-Control-Expose-Headers", "ETag, Link, Location, Retry-After")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", strings.Join(methods, ", "))
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, If-Match, If-None-Match, Idempotency-Key, Last-Event-ID, Traceparent")
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}

// from is who has sent a request, as far as it says.
type from struct {
	token   string // "" if it has none: of the open paths alone
	try     *try   // of a token that wasn't found before; nil else
	address string
	note    string
	trace   string
}

type callerKey struct{}

func caller(ctx context.Context) from {
	f, _ := ctx.Value(callerKey{}).(from)
	return f
}

// identify reads the token, and holds its bearer to a rate.
func (a *allowed) identify(r *http.Request) (from, *Problem) {
	address := r.RemoteAddr
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host
	}
	f := from{address: whose(r.Context(), address), note: "http:" + address, trace: r.Header.Get("Traceparent")}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") {
		f.token = strings.TrimSpace(token)
	} else if isAttach(r) {
		f.token = offeredToken(r.Header)
	}
	if f.token == "" && scheme == "" && !open(r) { // a browser whose login has ended may log in again at once
		f.token = byLogin(r)
	}
	switch a.rates.allow(&f) {
	case tooMany:
		return f, refusal(http.StatusTooManyRequests, "too many requests of one token or address", "ask less often")
	case unknown:
		return f, refusal(http.StatusUnauthorized, "no such token, or it has expired or was revoked", "`diapause token create` makes one")
	}
	if f.token == "" && !open(r) {
		return f, refusal(http.StatusUnauthorized, "the request has no token", "send `Authorization: Bearer TOKEN`; `diapause token create` makes one")
	}
	return f, nil
}

// open reports whether a path says nothing that isn't in the program anyway.
// A login proves by its body who asks.
func open(r *http.Request) bool {
	path := r.URL.Path
	return path == presencePath || console.Open(path) || path == prefix+"/docs" || strings.HasPrefix(path, prefix+"/docs/") || strings.HasPrefix(path, prefix+"/openapi.") ||
		path == loginPage || strings.HasPrefix(path, loginPage+"/") || path == prefix+"/login" && r.Method == http.MethodPost
}

// readBody reads the body at once, so that a client that is slow to send it takes up nothing else, and
// clears the deadline, which would end what is waited for later.
func (a *allowed) readBody(w http.ResponseWriter, r *http.Request) *Problem {
	if !hasBody(r) {
		return nil
	}
	wait, most := a.bodyWait, int64(maxBody)
	if open(r) { // of anyone
		wait, most = openWait, maxOpen
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(wait)) // a test's recorder has none
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return refusal(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes", most), "")
	case err != nil:
		return refusal(http.StatusRequestTimeout, "the body didn't arrive", "")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	return nil
}

// methods are those of the API's paths.
var methods = []string{"GET", "POST", "PUT", "PATCH", "DELETE"}

// orProblem answers what no pattern of the mux takes with a problem.
func orProblem(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		var allow []string
		for _, method := range methods {
			other := r.Clone(r.Context())
			other.Method = method
			if _, pattern := mux.Handler(other); pattern != "" {
				allow = append(allow, method)
			}
		}
		if len(allow) > 0 {
			w.Header().Set("Allow", strings.Join(allow, ", "))
			refusal(http.StatusMethodNotAllowed, fmt.Sprintf("%.10q isn't for this path", r.Method), "it takes "+strings.Join(allow, ", ")).write(w)
			return
		}
		refusal(http.StatusNotFound, "there is nothing at this path", "see "+prefix+"/docs").write(w)
	})
}
