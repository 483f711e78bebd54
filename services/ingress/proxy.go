package ingress

import (
	"cmp"
	"context"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/diapause/diapause/schemas"
)

// Options is what a Proxy and a TCPServer are made of.
type Options struct {
	Domain     string // below which sessions have host names; DefaultDomain if empty
	HostHeader string // sent to sessions as Host; the client's own if empty
	Policy     Policy // in place of what the sessions' own policies say; they count if it is nil
	Budgets    Budgets
	Authorizer Authorizer
	// Hosts have the path form besides those of Parse: other names of the server that the proxy is a part of.
	Hosts []string
	// Refused may answer a request that Authorizer has refused, and says whether it has; nil if none.
	Refused func(w http.ResponseWriter, a Ask, err error) bool
	Waker   Waker
	Leaser  Leaser
	Dialer  Dialer
	Log     *slog.Logger
}

func (o Options) withDefaults() Options {
	o.Domain, o.Budgets = cmp.Or(o.Domain, DefaultDomain), o.Budgets.withDefaults()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Proxy carries HTTP requests to sessions; Serve runs it.
type Proxy struct {
	Options
	wakes     *wakes
	policies  *policies
	transport *transport
	forward   *httputil.ReverseProxy
	stop      context.CancelFunc
	uids      sync.Map // the names of sessions that were looked at, by their uids, which are never used again
	known     atomic.Int64
}

// New makes a proxy. Close ends what it has started.
func New(o Options) *Proxy {
	o = o.withDefaults()
	ctx, stop := context.WithCancel(context.Background())
	p := &Proxy{Options: o, wakes: newWakes(ctx, o.Waker, o.Budgets.Wake), policies: newPolicies(o.Policy), stop: stop}
	p.transport = newTransport(p.wakes, o.Dialer, o.Leaser, o.Budgets)
	p.forward = &httputil.ReverseProxy{
		Rewrite: p.rewrite, ModifyResponse: p.modify, Transport: p.transport, ErrorHandler: p.failed,
		FlushInterval: -1, BufferPool: &buffers{}, ErrorLog: log.New(io.Discard, "", 0), // what it would say is the client's end
	}
	return p
}

// Close ends resumes that are waited for, which go on by themselves, and idle connections.
func (p *Proxy) Close() {
	p.stop()
	p.wakes.group.Wait()
	p.transport.close()
}

// Bounds of what clients may send and how slowly.
const (
	headerLimit = 15 * time.Second
	headerBytes = 64 << 10
	// idleLimit is more than the 10 minutes that load balancers keep idle connections: it is them who close.
	idleLimit = 610 * time.Second
	endLimit  = 5 * time.Second
)

// Serve takes requests at l until ctx ends: HTTP/1.1, and HTTP/2 without TLS for clients that begin with it. When
// ctx ends it gives requests five seconds, and then cuts them off.
func (p *Proxy) Serve(ctx context.Context, l net.Listener) error {
	requests, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	s := &http.Server{
		Handler: p, ReadHeaderTimeout: headerLimit, IdleTimeout: idleLimit, MaxHeaderBytes: headerBytes,
		ErrorLog:    slog.NewLogLogger(p.Log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return requests },
		Protocols:   new(http.Protocols),
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		grace, done := context.WithTimeout(requests, endLimit)
		defer done()
		if s.Shutdown(grace) != nil {
			s.Close()
		}
		cut() // upgraded connections, too
	})
	err := s.Serve(l)
	if stop() {
		return err
	}
	<-ended
	return nil
}

// ServeHTTP implements http.Handler, for servers that have more to serve: Parse says which requests are for a Proxy.
// An upgraded connection ends with its request's context at the latest.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	admitted, end := Unread(w, r)
	defer end()
	v, done := p.admit(w, r)
	if done {
		return
	}
	admitted()
	v.times.began, v.times.admitted = began, time.Now()
	defer duplex(w, r)()
	defer v.end()
	p.forward.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), visitKey{}, v)))
}

// admit says what a request is and may do. done says that it was answered.
func (p *Proxy) admit(w http.ResponseWriter, r *http.Request) (v *visit, done bool) {
	if r.Method == http.MethodConnect {
		p.refuse(w, r, refused(http.StatusMethodNotAllowed, schemas.CodeUsage, "CONNECT isn't for this proxy", ""))
		return nil, true
	}
	if r.URL.Opaque != "" || r.URL.Scheme != "" && r.URL.Scheme != "http" && r.URL.Scheme != "https" {
		p.refuse(w, r, refused(http.StatusBadRequest, schemas.CodeUsage, "the request's target isn't a path", ""))
		return nil, true
	}
	if leaks(r.URL.RawQuery) || leaks(r.URL.EscapedPath()) {
		p.refuse(w, r, refused(http.StatusBadRequest, schemas.CodeUsage, "the request's URL has a token", "send it in the header Authorization; revoke it, as others may have seen it"))
		return nil, true
	}
	target, err := p.Target(r)
	if err != nil {
		p.refuse(w, r, misdirected(p.Domain, err))
		return nil, true
	}
	v = &visit{target: target, class: Classify(r)}
	from, _ := netip.ParseAddrPort(r.RemoteAddr) // not an address in tests of handlers alone
	ask := Ask{Target: target, Class: v.class, From: from, HTTP: r}
	grant, err := p.Authorizer.Authorize(r.Context(), ask)
	if err != nil {
		if p.Refused != nil && p.Refused(w, ask, err) {
			return nil, true
		}
		p.refuse(w, r, problemOf(err, target))
		return nil, true
	}
	v.strip = grant.Strip
	if err := p.place(r, v); err != nil {
		p.refuse(w, r, problemOf(err, v.target))
		return nil, true
	}
	v.use = UseOf(v.class, v.policy)
	v.why = Why{Class: v.class, Method: r.Method, Path: r.URL.EscapedPath(), Port: target.Port, Caller: grant.Caller}
	switch {
	case target.Prefix == "" && r.URL.Path == Reserved:
		p.serveState(w, r, v)
		return nil, true
	case target.Prefix != "" && v.class == Navigation && r.Method == http.MethodGet:
		p.toOrigin(w, r, v)
		return nil, true
	}
	return v, p.instead(w, r, v)
}

// Target reads which port a request is for; the error wraps ErrHost or ErrPath if it is for none.
func (p *Proxy) Target(r *http.Request) (Target, error) {
	if slices.Contains(p.Hosts, hostOf(r.Host)) {
		return ofPath(r.URL.EscapedPath())
	}
	return Parse(p.Domain, r.Host, r.URL.EscapedPath())
}

// place completes the target, and says what becomes of the request.
func (p *Proxy) place(r *http.Request, v *visit) error {
	uid := v.target.UID
	if name, ok := p.uids.Load(uid); ok {
		v.target.Name = name.(schemas.Name)
	}
	w, runs := p.wakes.running(v.target.Name)
	runs = runs && (uid == "" || w.view.UID == uid)
	if v.target.Name != (schemas.Name{}) {
		v.policy = p.policies.look(r.Context(), p.Waker, v.target)
	}
	v.verdict = Decide(v.class, "", v.policy)
	switch {
	case v.verdict == Wake && (runs || uid == ""):
		return nil // it is asked for by its name, in whichever state
	case runs:
		v.verdict = Pass
		return nil
	}
	view, err := p.Waker.Look(r.Context(), v.target)
	if err != nil {
		return err
	}
	if v.target.Name, err = schemas.ParseName(view.Name); err != nil {
		return err
	}
	if uid != "" {
		if p.known.Add(1) > remembered {
			p.uids.Clear()
			p.known.Store(1)
		}
		p.uids.Store(uid, v.target.Name)
	}
	v.policy = p.policies.saw(v.target.Name, view)
	v.state, v.verdict = view.State, Decide(v.class, view.State, v.policy)
	if view.State == schemas.Running {
		if v.policy[v.class] == Wake {
			v.verdict = Wake // it may be suspended before it is reached
		}
		p.wakes.seen(v.target.Name, view)
	}
	return nil
}

// instead answers what isn't for the session, and reports whether it has.
func (p *Proxy) instead(w http.ResponseWriter, r *http.Request, v *visit) bool {
	switch v.verdict {
	case Ignore:
		panic(http.ErrAbortHandler)
	case Answer:
		p.answerFor(w, r, v)
		return true
	}
	return false
}

// buffers are what bodies are copied through.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if buf, ok := b.pool.Get().(*[]byte); ok {
		return *buf
	}
	return make([]byte, 64<<10)
}

func (b *buffers) Put(buf []byte) { b.pool.Put(&buf) }
