package ingress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/diapause/diapause/schemas"
)

// Budgets are how long the parts of a request may take. A field that is 0 has its default.
type Budgets struct {
	Wake      time.Duration // to have the session run: a minute
	Connect   time.Duration // from then until its port listens: 15 seconds
	FirstByte time.Duration // from when the request was sent to the first byte of the answer: 5 minutes
	Page      time.Duration // before a navigation gets the waiting page: half a second
	// Probe is how long a TCP connection waits for its first byte, before it resumes a session all the same: 50
	// milliseconds. A client may wait for the server to begin, and a probe closes at once.
	Probe time.Duration
}

func (b Budgets) withDefaults() Budgets {
	for field, usual := range map[*time.Duration]time.Duration{
		&b.Wake: time.Minute, &b.Connect: 15 * time.Second, &b.FirstByte: 5 * time.Minute, &b.Page: 500 * time.Millisecond, &b.Probe: 50 * time.Millisecond,
	} {
		if *field <= 0 {
			*field = usual
		}
	}
	return b
}

// Why a request didn't reach its session, besides errors of the ports; match with errors.Is.
var (
	errPage   = errors.New("the session isn't there yet")
	errAsleep = errors.New("the session doesn't run")
	errClosed = errors.New("nothing listens at the port")
)

// visit is one request on its way. Its handler's goroutine owns it.
type visit struct {
	target  Target
	class   Class
	state   schemas.State // if it was looked at
	policy  Policy        // of the session
	verdict Verdict
	use     Use
	why     Why
	strip   func(http.Header)
	times   times

	within  *wake  // that the request uses
	leave   func() // ends that
	release func() // ends the lease; nil before it begins
}

type visitKey struct{}

func visitOf(ctx context.Context) *visit {
	v, _ := ctx.Value(visitKey{}).(*visit)
	return v
}

// transport sends requests to sessions, which it has resumed where the visit says so.
type transport struct {
	wakes   *wakes
	dialer  Dialer
	leaser  Leaser
	budgets Budgets

	kept, once, grpc *http.Transport
}

// keptIdle is how long a connection to a session is kept that carries nothing: less than servers keep theirs
// (5 seconds in Node.js), so that it is us who close, and short beside a grace, as its host sees an open connection.
const keptIdle = 2 * time.Second

func newTransport(w *wakes, d Dialer, l Leaser, b Budgets) *transport {
	t := &transport{wakes: w, dialer: d, leaser: l, budgets: b}
	base := &http.Transport{
		DialContext: t.dial, DisableCompression: true, MaxIdleConnsPerHost: 32, IdleConnTimeout: keptIdle,
		ResponseHeaderTimeout: b.FirstByte, ExpectContinueTimeout: time.Second, WriteBufferSize: 32 << 10, ReadBufferSize: 32 << 10,
	}
	t.kept, t.once, t.grpc = base, base.Clone(), base.Clone()
	t.once.DisableKeepAlives = true
	t.grpc.Protocols = new(http.Protocols)
	t.grpc.Protocols.SetUnencryptedHTTP2(true)
	return t
}

func (t *transport) close() {
	for _, way := range []*http.Transport{t.kept, t.once, t.grpc} {
		way.CloseIdleConnections()
	}
}

// RoundTrip implements http.RoundTripper for a request whose context has a visit.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	v := visitOf(r.Context())
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &unread{from: r.Body}
	}
	if v.class == Navigation && replayable(r) {
		ctx, cancel := context.WithCancelCause(r.Context())
		impatient := time.AfterFunc(t.budgets.Page, func() { cancel(errPage) })
		defer impatient.Stop()
		r = r.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { impatient.Stop() }}))
	}
	return t.send(r, v)
}

// send tries until the request is answered, can't be sent again, or a budget ends.
func (t *transport) send(r *http.Request, v *visit) (*http.Response, error) {
	again, looked := 1, false
	for end := time.Now().Add(t.budgets.Wake + t.budgets.Connect); ; {
		w, err := t.ready(r.Context(), v)
		if err != nil {
			return nil, err
		}
		if !v.times.ran.IsZero() && v.times.connected.IsZero() {
			r = v.times.traced(r)
		}
		answer, err := t.way(r).RoundTrip(r)
		asleep := errors.Is(err, errAsleep)
		switch {
		case err == nil:
			return answer, nil
		case r.Context().Err() != nil:
			return nil, context.Cause(r.Context())
		case asleep && v.verdict == Wake && time.Now().Before(end) && !touched(r): // it was suspended or moved since
		case !asleep && !errors.Is(err, errClosed) && !timedOut(err) && again > 0 && replayable(r):
			again--
			if v.verdict == Wake {
				t.wakes.forget(v.target.Name, w)
			}
		case asleep && v.verdict == Pass && !looked && !touched(r): // it may run elsewhere by now
			looked = true
			view, none := t.wakes.waker.Look(r.Context(), v.target)
			if none != nil || view.State != schemas.Running {
				return nil, err
			}
			t.wakes.seen(v.target.Name, view)
		default:
			return nil, err
		}
		if err := pause(r.Context(), askAgain); err != nil {
			return nil, err
		}
	}
}

// askAgain is the pause before a session is asked for again that wasn't to be reached.
const askAgain = 50 * time.Millisecond

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ready waits until the session runs, and begins the lease.
func (t *transport) ready(ctx context.Context, v *visit) (*wake, error) {
	w, ok := t.wakes.running(v.target.Name)
	if !ok {
		if v.verdict != Wake {
			return nil, errAsleep
		}
		var err error
		if w, err = t.wakes.await(ctx, v.target.Name, v.why); err != nil {
			return nil, err
		}
		v.times.waited(w)
	}
	if uid := v.target.UID; uid != "" && w.view.UID != uid { // it was made again under that name
		t.wakes.forget(v.target.Name, w)
		return nil, &schemas.APIError{Code: schemas.CodeNoSession, Text: "no such session: uid " + string(uid)}
	}
	if v.within != w {
		leave := w.enter()
		v.left()
		v.within, v.leave = w, leave
	}
	if v.release == nil && v.use.Lease {
		v.release = t.leaser.Hold(v.target.Name, v.why, v.use.Fresh)
	}
	return w, nil
}

// end ends what ready began, when the request has been answered.
func (v *visit) end() {
	if v.release != nil {
		v.release()
	}
	v.left()
}

func (v *visit) left() {
	if v.leave != nil {
		v.leave()
	}
}

// way gives the connections that a request may use. What is no use of the session leaves none open.
func (t *transport) way(r *http.Request) *http.Transport {
	switch {
	case r.ProtoMajor == 2 && isGRPC(r.Header.Get("Content-Type")):
		return t.grpc
	case replayable(r) && r.Header.Get("Upgrade") == "" && visitOf(r.Context()).use.Lease:
		return t.kept
	}
	return t.once
}

// isGRPC reports whether a body is gRPC's, which is of HTTP/2 alone, and not that of gRPC-Web.
func isGRPC(kind string) bool {
	rest, ok := strings.CutPrefix(kind, "application/grpc")
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

// dial connects to the address of a session (see address), and tries until its port listens.
func (t *transport) dial(ctx context.Context, _, address string) (net.Conn, error) {
	n, port, err := readAddress(address)
	if err != nil {
		return nil, err
	}
	return connect(ctx, t.wakes, t.dialer, n, port, t.budgets.Connect)
}

// The pauses between two tries to connect, the first and the longest.
const (
	connectAgain = 5 * time.Millisecond
	connectMost  = 200 * time.Millisecond
)

// connect connects to a port of a session that runs, and tries until the port listens or the budget ends. The
// error is errAsleep if the session isn't to be reached as it was seen to run.
func connect(ctx context.Context, s *wakes, d Dialer, n schemas.Name, port uint16, budget time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	refused := false
	for wait := connectAgain; ; wait = min(2*wait, connectMost) {
		w := s.last(n)
		if w == nil || !w.over() || w.err != nil {
			return nil, errAsleep
		}
		conn, err := d.Dial(ctx, w.view, port)
		if err == nil {
			return conn, nil
		}
		if refused && ctx.Err() != nil {
			return nil, errClosed
		}
		refused = refused || errors.Is(err, ErrRefused)
		if !errors.Is(err, ErrRefused) {
			s.forget(n, w)
			return nil, fmt.Errorf("%w: %w", errAsleep, err)
		}
		if pause(ctx, wait) != nil {
			return nil, errClosed
		}
	}
}

// address names a port of a session for http.Transport, which keeps connections by it.
func address(t Target) string {
	return net.JoinHostPort(t.Name.Key(), strconv.Itoa(int(t.Port)))
}

func readAddress(s string) (schemas.Name, uint16, error) {
	key, port, err := net.SplitHostPort(s)
	if err != nil {
		return schemas.Name{}, 0, err
	}
	n, err := schemas.NameOfKey(key)
	p, ok := portOf(port)
	if err == nil && !ok {
		err = fmt.Errorf("address %q has no port", s)
	}
	return n, p, err
}

// replayable reports whether a request may be sent twice.
func replayable(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return r.Body == nil || r.Body == http.NoBody
	}
	return false
}

func timedOut(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// unread is a request's body that can be handed to a second try, as long as none has read of it. It belongs to
// the server, which closes it.
type unread struct {
	from    io.Reader
	touched atomic.Bool
}

func (b *unread) Read(p []byte) (int, error) {
	b.touched.Store(true)
	return b.from.Read(p)
}

func (b *unread) Close() error { return nil }

// touched reports whether a request's body was read.
func touched(r *http.Request) bool {
	b, ok := r.Body.(*unread)
	return ok && b.touched.Load()
}
