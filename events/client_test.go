package events

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/schemas"
)

// patience bounds every wait; a passing test never waits so long.
const patience = 30 * time.Second

func startServer(t *testing.T, port int) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(patience) {
		t.Fatal("the server doesn't start")
	}
	return s
}

// listen gives what is published from now on.
func listen(t *testing.T, url string) chan *nats.Msg {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	heard := make(chan *nats.Msg, 1000)
	if _, err := nc.ChanSubscribe(schemas.SubjectActivity+".>", heard); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return heard
}

func next(t *testing.T, heard chan *nats.Msg) (*nats.Msg, schemas.Activity) {
	t.Helper()
	select {
	case m := <-heard:
		a, err := schemas.ParseActivity(m.Data)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := schemas.ParseActivitySubject(m.Subject); err != nil {
			t.Fatal(err)
		}
		return m, a
	case <-time.After(patience):
		t.Fatal("nothing was published")
		return nil, schemas.Activity{}
	}
}

func connect(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := Connect(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func sessionOf(t *testing.T, c *Client, name string) Session {
	t.Helper()
	s, err := c.Session(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSaying(t *testing.T) {
	srv := startServer(t, -1)
	heard := listen(t, srv.ClientURL())
	c := connect(t, Options{URL: srv.ClientURL(), By: "shop"})
	s := sessionOf(t, c, "acme/web-42")
	for kind, say := range map[string]func(...How){"input": s.Input, "exec": s.Exec, "http": s.HTTP, "heartbeat": s.Heartbeat, "output": s.Output} {
		say(Reconnected, Because("x"))
		m, a := next(t, heard)
		want := schemas.Activity{By: "shop", Intent: "reconnect", Reason: "x"}
		if m.Subject != "diapause.v1.activity.acme.web-42."+kind || a != want {
			t.Errorf("%s: published %s %+v", kind, m.Subject, a)
		}
	}
	if _, err := c.Session("a b"); err == nil {
		t.Error("a name with a space is taken")
	}
}

// Two actions within a second are two words.
func TestAgent(t *testing.T) {
	srv := startServer(t, -1)
	heard := listen(t, srv.ClientURL())
	s := sessionOf(t, connect(t, Options{URL: srv.ClientURL()}), "web")
	for _, action := range []string{"edit", "test"} {
		if err := s.Agent(schemas.TriggerBefore, Run("r-7"), OfAction(action)); err != nil {
			t.Fatal(err)
		}
	}
	actions := map[string]bool{}
	for range 2 {
		m, a := next(t, heard)
		if m.Subject != "diapause.v1.activity.default.web.agent.before" || a.RunID != "r-7" {
			t.Errorf("heard %s %+v", m.Subject, a)
		}
		actions[a.Action] = true
	}
	if !actions["edit"] || !actions["test"] {
		t.Errorf("heard of %v, want edit and test", actions)
	}
	if err := s.Agent("lunch"); err == nil {
		t.Error("any trigger is taken")
	}
}

func TestLeaseLives(t *testing.T) {
	srv := startServer(t, -1)
	heard := listen(t, srv.ClientURL())
	c := connect(t, Options{URL: srv.ClientURL()})
	s := sessionOf(t, c, "web")
	l, err := s.Busy(t.Context(), "build", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // the first, and two renewals
		m, a := next(t, heard)
		if m.Subject != "diapause.v1.activity.default.web.busy.build" || time.Duration(a.TTL) != time.Second || a.Released || m.Header.Get("Nats-TTL") != "601" {
			t.Fatalf("published %s %+v %v", m.Subject, a, m.Header)
		}
	}
	again, err := s.Busy(t.Context(), "build", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	_ = l.Close() // which does nothing
	if _, a := next(t, heard); a.Released {
		t.Error("released while another of the same key is open")
	}
	_ = again.Close()
	for {
		if _, a := next(t, heard); a.Released {
			break
		}
	}
}

func TestLeaseEndsWithContextAndClient(t *testing.T) {
	srv := startServer(t, -1)
	heard := listen(t, srv.ClientURL())
	c := connect(t, Options{URL: srv.ClientURL()})
	s := sessionOf(t, c, "web")
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := s.Present(ctx, "", 0); err != nil {
		t.Fatal(err)
	}
	opened, _ := next(t, heard)
	cancel()
	if m, a := next(t, heard); !a.Released || m.Subject != opened.Subject {
		t.Errorf("after its context ended: %s %+v, want a release of %s", m.Subject, a, opened.Subject)
	}
	if _, err := s.Hold(t.Context(), "mine", time.Hour); err != nil {
		t.Fatal(err)
	}
	next(t, heard)
	s.Input()
	next(t, heard)
	s.Input(Because("the last")) // which waits for its second
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for range 2 {
		m, a := next(t, heard)
		got = append(got, fmt.Sprint(strings.TrimPrefix(m.Subject, "diapause.v1.activity.default.web."), " ", a.Released, " ", a.Reason))
	}
	slices.Sort(got)
	if want := []string{"hold.mine true ", "input false the last"}; !slices.Equal(got, want) {
		t.Errorf("closing sent %q, want %q", got, want)
	}
	if _, err := s.Hold(t.Context(), "mine", time.Hour); !errors.Is(err, ErrClosed) {
		t.Errorf("a lease of a closed client: %v", err)
	}
}

func TestLeaseRefused(t *testing.T) {
	c := connect(t, Options{URL: startServer(t, -1).ClientURL()})
	s := sessionOf(t, c, "web")
	for _, ttl := range []time.Duration{-1, time.Millisecond, 31 * 24 * time.Hour} {
		if _, err := s.Busy(t.Context(), "b", ttl); err == nil {
			t.Errorf("a lease of %s is taken", ttl)
		}
	}
	for _, key := range []string{"a.b", "a b", "*", ">", strings.Repeat("x", 200), "\x1b[2J"} {
		if _, err := s.Busy(t.Context(), key, 0); err == nil {
			t.Errorf("a lease with the key %q is taken", key)
		}
	}
}

// What is said while the server is away is said when it is back, the last of each
// kind, and leases that are open are renewed at once.
func TestServerAway(t *testing.T) {
	srv := startServer(t, -1)
	url, port := srv.ClientURL(), srv.Addr().(*net.TCPAddr).Port
	c := connect(t, Options{URL: url, NATS: []nats.Option{nats.ReconnectWait(20 * time.Millisecond)}})
	s := sessionOf(t, c, "web")
	if _, err := s.Present(t.Context(), "page", time.Minute); err != nil {
		t.Fatal(err)
	}
	lost := c.nc.StatusChanged(nats.RECONNECTING)
	srv.Shutdown()
	srv.WaitForShutdown()
	<-lost
	for i := range 50 {
		s.Input(Because(fmt.Sprint(i)))
		s.Exec(Because(fmt.Sprint(i)))
	}
	l, err := s.Busy(t.Context(), "op", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	back := startServerWithListener(t, port)
	got := map[string]int{}
	for _, want := range []string{"input 49", "exec 49", "busy.op "} {
		for got[want] == 0 {
			m, a := next(t, back)
			got[strings.TrimPrefix(m.Subject, "diapause.v1.activity.default.web.")+" "+a.Reason]++
		}
	}
	if got["input 49"] != 1 || got["exec 49"] != 1 {
		t.Errorf("heard %v, want the last of each kind once", got)
	}
}

// startServerWithListener starts a server whose every message is heard from the
// first on: its listener is there before other clients find the port.
func startServerWithListener(t *testing.T, port int) chan *nats.Msg {
	t.Helper()
	inside := startServer(t, -1)
	heard := listen(t, inside.ClientURL())
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", inside.Addr().String())
			if err != nil {
				from.Close()
				continue
			}
			go func() { _, _ = io.Copy(to, from); to.Close() }()
			go func() { _, _ = io.Copy(from, to); from.Close() }()
		}
	}()
	return heard
}

// A connection that dies unnoticed takes what was sent into it along: what the server
// hasn't confirmed is sent again.
func TestUnconfirmedIsSentAgain(t *testing.T) {
	srv := startServer(t, -1)
	heard := listen(t, srv.ClientURL())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	swallowed := make(chan struct{})
	go swallowFirst(l, srv.Addr().String(), swallowed)
	c := connect(t, Options{URL: "nats://" + l.Addr().String(), NATS: []nats.Option{nats.ReconnectWait(20 * time.Millisecond)}})
	sessionOf(t, c, "web").Input(Because("once"))
	select {
	case <-swallowed:
	case <-time.After(patience):
		t.Fatal("nothing was sent")
	}
	if _, a := next(t, heard); a.Reason != "once" {
		t.Errorf("heard %+v", a)
	}
}

// A connection that dies between what was sent and the question whether it was read: the answer
// comes from the next one, and says nothing of it.
func TestConfirmedByAnotherConnection(t *testing.T) {
	srv := startServer(t, -1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go swallowFirst(l, srv.Addr().String(), make(chan struct{}))
	var back chan nats.Status
	c := connect(t, Options{
		URL: "nats://" + l.Addr().String(), NATS: []nats.Option{nats.ReconnectWait(20 * time.Millisecond)},
		OnError: func(err error) {
			if errors.Is(err, nats.ErrBadSubject) {
				select {
				case <-back:
				case <-time.After(patience):
				}
			}
		},
	})
	back = c.nc.StatusChanged(nats.CONNECTED)
	gone := word{subject: schemas.ActivitySubject(sessionOf(t, c, "web").name, schemas.KindInput, "")}
	if err := c.publish([]word{gone, {subject: "no subject"}}); !errors.Is(err, nats.ErrStaleConnection) {
		t.Errorf("a message that went with its connection: %v", err)
	}
}

// swallowFirst is a way to the server that loses the first message and then the
// connection.
func swallowFirst(l net.Listener, server string, swallowed chan struct{}) {
	for first := true; ; first = false {
		from, err := l.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", server)
		if err != nil {
			from.Close()
			return
		}
		go func() { _, _ = io.Copy(from, to); from.Close() }()
		go func() {
			defer to.Close()
			defer from.Close()
			buf := make([]byte, 4096)
			for {
				n, err := from.Read(buf)
				if first && strings.Contains(string(buf[:n]), schemas.SubjectActivity) {
					close(swallowed)
					return
				}
				if err != nil {
					return
				}
				if _, err := to.Write(buf[:n]); err != nil {
					return
				}
			}
		}()
	}
}

func TestServerThatComesLater(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	c := connect(t, Options{URL: fmt.Sprintf("nats://127.0.0.1:%d", port), NATS: []nats.Option{nats.ReconnectWait(20 * time.Millisecond)}})
	sessionOf(t, c, "web").Input()
	heard := startServerWithListener(t, port)
	next(t, heard)
}

func TestCloseWithoutConnection(t *testing.T) {
	c, err := Connect(Options{URL: "nats://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	sessionOf(t, c, "web").Input()
	if err := c.Close(); err == nil || !strings.Contains(err.Error(), "1 words") {
		t.Errorf("closing says %v, want that one word was not said", err)
	}
}

func TestCredentialsThatCantBeUsed(t *testing.T) {
	if c, err := Connect(Options{Creds: "/no/such/file"}); err == nil {
		_ = c.Close()
		t.Error("a file that isn't there is taken")
	}
}

// A connection that was closed for good makes no work, and what was said is lost with
// a word.
func TestConnectionClosedForGood(t *testing.T) {
	srv := startServer(t, -1)
	nc, err := nats.Connect(srv.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	c := New(nc, Options{})
	nc.Close()
	s := sessionOf(t, c, "web")
	s.Input(Because(strings.Repeat("long ", 10_000)))
	if err := c.Close(); err == nil {
		t.Error("closing says that all was sent")
	}
	if err := c.Close(); err != nil {
		t.Errorf("a second close: %v", err)
	}
}

// However much a service says of what it does, the server takes it from clients without credentials.
func TestMessagesAreSmall(t *testing.T) {
	c := newClient(nil, Options{By: strings.Repeat(`"`, 300)})
	long := strings.Repeat(`<"`, 200)
	for _, how := range [][]How{{Because(long)}, {Run(long)}, {Because(long), Run(long), OfAction(long)}} {
		a := c.activity(how)
		a.TTL = schemas.Duration(schemas.MaxLease)
		data := encode(a)
		got, err := schemas.ParseActivity(data)
		if len(data) > schemas.MaxUncredentialed-headersMost || err != nil || got.TTL != a.TTL {
			t.Errorf("%d bytes, %v: %s", len(data), err, data)
		}
	}
	if a, err := schemas.ParseActivity(encode(c.activity([]How{Because("a <b> & c")}))); err != nil || a.Reason != "a <b> & c" {
		t.Errorf("the reason is %q, %v", a.Reason, err)
	}
}
