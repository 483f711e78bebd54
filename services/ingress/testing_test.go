package ingress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
)

// limit bounds all that is waited for.
const limit = time.Minute

// fleet is one session, acme/web, whose ports lead to a server of the test; and everything of the system that a
// proxy asks.
type fleet struct {
	mu      sync.Mutex
	state   schemas.State
	denied  error
	failure error         // of Ensure
	gate    chan struct{} // Ensure waits until it is closed; nil if it doesn't
	dials   []error       // of the next ones
	calls   []string      // what was asked, in its order
	whys    []Why         // of Ensure
	held    map[*Why]bool // leases that are open: whether they are fresh
	step    func(schemas.Progress)
	wake    []schemas.WakeRule // what its policy says; nil if nothing

	server string // where the port leads to
	conns  []net.Conn
}

var web = name("acme", "web")

func (f *fleet) note(call string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, call)
}

// asked gives how often something was asked, and leases how many are open.
func (f *fleet) asked(call string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if c == call {
			n++
		}
	}
	return n
}

func (f *fleet) leases() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.held)
}

// open gives how many connections were made since the session came to run.
func (f *fleet) open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.conns)
}

// set has the session be in a state. Connections end with its processes.
func (f *fleet) set(s schemas.State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = s
	if s != schemas.Running {
		for _, c := range f.conns {
			c.Close()
		}
		f.conns = nil
	}
}

func (f *fleet) Authorize(_ context.Context, a Ask) (Grant, error) {
	f.note("authorize")
	f.mu.Lock()
	defer f.mu.Unlock()
	return Grant{Caller: "ann", Strip: func(h http.Header) { h.Del("Authorization") }}, f.denied
}

func (f *fleet) Look(_ context.Context, t Target) (schemas.View, error) {
	f.note("look")
	f.mu.Lock()
	defer f.mu.Unlock()
	if t.Name != web && t.UID != "u1" {
		return schemas.View{}, &schemas.APIError{Code: schemas.CodeNoSession, Text: "no such session"}
	}
	return schemas.View{Name: web.String(), UID: "u1", State: f.state, Host: "h", Since: time.Now(), Wake: f.wake}, nil
}

func (f *fleet) Ensure(ctx context.Context, n schemas.Name, why Why) (schemas.View, error) {
	f.note("ensure")
	f.mu.Lock()
	gate, failure := f.gate, f.failure
	f.whys = append(f.whys, why)
	f.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return schemas.View{}, ctx.Err()
		}
	}
	if failure != nil {
		return schemas.View{}, failure
	}
	if v, err := f.Look(ctx, Target{Name: n}); err != nil {
		return v, err
	}
	f.set(schemas.Running)
	return f.Look(ctx, Target{Name: n})
}

func (f *fleet) Follow(_ schemas.Name, step func(schemas.Progress)) (stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.step = step
	return func() {}
}

func (f *fleet) Hold(_ schemas.Name, why Why, fresh bool) (release func()) {
	f.note("hold")
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held[&why] = fresh
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.held, &why)
	}
}

var errNotHere = errors.New("it isn't here")

func (f *fleet) Dial(ctx context.Context, v schemas.View, port uint16) (net.Conn, error) {
	f.note("dial")
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.dials) > 0 {
		err := f.dials[0]
		f.dials = f.dials[1:]
		return nil, err
	}
	if v.Host != "h" || f.state != schemas.Running {
		return nil, errNotHere
	}
	if port != 80 {
		return nil, ErrRefused
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", f.server)
	if err == nil {
		f.conns = append(f.conns, c)
	}
	return c, err
}

// newFleet gives one whose session is suspended and has a handler at its port 80.
func newFleet(t testing.TB, h http.Handler) *fleet {
	t.Helper()
	f := &fleet{state: schemas.Suspended, held: map[*Why]bool{}}
	if h != nil {
		s := httptest.NewUnstartedServer(h)
		s.Config.Protocols = new(http.Protocols)
		s.Config.Protocols.SetHTTP1(true)
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		s.Start()
		t.Cleanup(s.Close)
		f.server = s.Listener.Addr().String()
	}
	return f
}

func (f *fleet) options() Options {
	return Options{Authorizer: f, Waker: f, Leaser: f, Dialer: f, Budgets: Budgets{Wake: limit, Connect: limit, FirstByte: limit, Page: limit}}
}

// proxy serves a proxy and gives its address.
func serve(t testing.TB, o Options) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := New(o)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the proxy ends with %v", err)
		}
		p.Close()
	})
	return l.Addr().String()
}

const webHost = "80--web.acme.localhost"

// browser sends requests for any host to one address.
type browser struct {
	t       testing.TB
	address string
	client  *http.Client
}

func newBrowser(t testing.TB, address string) browser {
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return browser{t, address, &http.Client{
		Transport: tr, Timeout: limit, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// reply is an answer with its whole body.
type reply struct {
	*http.Response
	text string
}

// ask sends a request. Headers are lines as they are sent.
func (b browser) ask(method, url, headers string, body io.Reader) (reply, error) {
	r, err := http.NewRequest(method, url, body)
	if err != nil {
		b.t.Fatal(err)
	}
	for line := range strings.Lines(headers) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if key == "Host" {
			r.Host = value
		}
		r.Header.Add(key, value)
	}
	answer, err := b.client.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return reply{answer, string(text)}, err
}

func (b browser) must(method, url, headers string, body io.Reader) reply {
	b.t.Helper()
	got, err := b.ask(method, url, headers, body)
	if err != nil {
		b.t.Fatal(err)
	}
	return got
}

// raw sends bytes on a connection of its own, and gives what comes until the other end closes.
func (b browser) raw(text string) string {
	b.t.Helper()
	c := b.dial()
	if _, err := io.WriteString(c, text); err != nil {
		b.t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if err != nil {
		return string(got) + fmt.Sprint(err)
	}
	return string(got)
}

func (b browser) dial() *net.TCPConn {
	b.t.Helper()
	c, err := net.Dial("tcp", b.address)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		b.t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

// until waits for something that a goroutine of the code does.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited too long until %s", what)
		}
	}
}
