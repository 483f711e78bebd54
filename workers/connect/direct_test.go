package connect

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/direct"
	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/tunnel"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// bench is a host with one session, "s", which answers each forwarded connection with its port and what
// it was sent.
type bench struct {
	t      *testing.T
	nc     *nats.Conn
	server *Server

	mu       sync.Mutex
	record   schemas.SessionRecord
	requests []attach.Request // that reached the session
	said     []string         // kinds of activity, and what was released
}

func (b *bench) Get(context.Context, schemas.Name) (statekv.Versioned, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return statekv.Versioned{SessionRecord: b.record}, nil
}

func (b *bench) Activity(_ context.Context, _ schemas.Name, k schemas.Kind, key string, a schemas.Activity) (uint64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	word, _, _ := strings.Cut(key, "-")
	word = string(k) + " " + word
	if a.Released {
		word += " released"
	}
	b.said = append(b.said, word)
	return 1, nil
}

// sessions is the driver of a bench.
type sessions struct {
	driver.Driver
	*bench
}

func (b sessions) Dial(context.Context, schemas.UID) (net.Conn, error) {
	ours, theirs := pair(b.t)
	go func() {
		defer theirs.Close()
		r, err := attach.ReadRequest(theirs)
		if err != nil {
			return
		}
		b.mu.Lock()
		b.requests = append(b.requests, r)
		b.mu.Unlock()
		if r.Op == attach.OpWatch {
			_, _ = io.Copy(io.Discard, theirs) // until the client is gone
			return
		}
		if r.Op != attach.OpForward {
			_ = attach.WriteError(theirs, "no such request")
			return
		}
		inner, server := pair(b.t)
		go func() {
			text, _ := io.ReadAll(server)
			_ = json.NewEncoder(server).Encode(r.Port)
			_, _ = server.Write(text)
			server.Close()
		}()
		_ = attach.ServeForward(theirs, inner, func() bool { return true })
	}()
	return ours, nil
}

// pair gives both ends of a TCP connection.
func pair(t *testing.T) (a, b net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Error(err)
		return nil, nil
	}
	defer l.Close()
	a, err = net.Dial("tcp", l.Addr().String())
	if err == nil {
		b, err = l.Accept()
	}
	if err != nil {
		t.Error(err)
	}
	return a, b
}

func newBench(t *testing.T) *bench {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	listener, err := direct.Listen(direct.Options{Advertise: "127.0.0.1:0", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	url := natstest.Serve(t).ClientURL()
	b := &bench{t: t, nc: natstest.Connect(t, url).Conn()}
	b.record = schemas.SessionRecord{Tenant: schemas.DefaultTenant, Session: "s", UID: "u", Epoch: 3, Host: "h", State: schemas.Running, Driver: "fake"}
	s := &Server{Options: Options{
		Host: "h", NC: natstest.Connect(t, url).Conn(), Records: b, Bus: b, Log: log, Direct: listener,
		Drivers: map[schemas.DriverName]driver.Driver{"fake": sessions{bench: b}}, Capturing: func(schemas.Name) bool { return false },
	}}
	b.server = s
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- s.Serve(ctx, func() { close(ready) }) }()
	<-ready
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return b
}

// ask has a client forward a connection, with what it does with an offer, and gives what the session answers.
func (b *bench) ask(h attach.Hello, dial func(attach.Offer) (net.Conn, error)) (string, error) {
	b.t.Helper()
	h.Name, h.Forward, h.Presence, h.Input = "s", true, true, true
	hello, err := json.Marshal(h)
	if err != nil {
		b.t.Fatal(err)
	}
	conn, err := tunnel.Dial(b.t.Context(), b.nc, schemas.SubjectHost+".h.dial", hello)
	if err != nil {
		b.t.Fatal(err)
	}
	user, local := pair(b.t)
	defer user.Close()
	if _, err := io.WriteString(user, "question"); err != nil {
		b.t.Fatal(err)
	}
	if err := user.(*net.TCPConn).CloseWrite(); err != nil {
		b.t.Fatal(err)
	}
	if err := attach.ForwardDirect(conn, 8080, dial, func() (net.Conn, error) { return local, nil }); err != nil {
		return "", err
	}
	text, err := io.ReadAll(user)
	return string(text), err
}

// reached gives the requests that have come to the session.
func (b *bench) reached() []attach.Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requests
}

const answer = "8080\nquestion"

func TestForwardedDirectly(t *testing.T) {
	b := newBench(t)
	dialed := 0
	text, err := b.ask(attach.Hello{Direct: true}, func(o attach.Offer) (net.Conn, error) {
		dialed++
		return direct.Dial(t.Context(), o, "s", 8080)
	})
	if err != nil || text != answer || dialed != 1 {
		t.Errorf("dialed %d times, the session answers %q: %v", dialed, text, err)
	}
	want := []string{"presence forward", "input ", "presence forward released"}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		b.mu.Lock()
		got := strings.Join(b.said, ", ")
		b.mu.Unlock()
		if got == strings.Join(want, ", ") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the session's use is told as %q, want %q", got, want)
		}
	}
}

// A client that can't take the offer, one that takes none, and one of a session that isn't here have their
// answer through NATS.
func TestForwardedWithoutDirect(t *testing.T) {
	b := newBench(t)
	text, err := b.ask(attach.Hello{Direct: true}, func(attach.Offer) (net.Conn, error) { return nil, errors.New("it can't be reached") })
	if err != nil || text != answer {
		t.Errorf("the session answers %q: %v", text, err)
	}
	never := func(attach.Offer) (net.Conn, error) {
		t.Error("it has an offer")
		return nil, errors.New("it has none")
	}
	if text, err := b.ask(attach.Hello{}, never); err != nil || text != answer {
		t.Errorf("the session answers %q: %v", text, err)
	}
	b.mu.Lock()
	b.record.State = schemas.Suspended
	b.mu.Unlock()
	if text, err := b.ask(attach.Hello{Direct: true}, never); err != nil || text != answer {
		t.Errorf("the session answers %q: %v", text, err)
	}
}

// A client that means a session which was removed doesn't reach another one that has its name
// now, by either way.
func TestAnotherOfItsName(t *testing.T) {
	b := newBench(t)
	never := func(attach.Offer) (net.Conn, error) {
		t.Error("it has an offer")
		return nil, errors.New("it has none")
	}
	for _, direct := range []bool{false, true} {
		text, err := b.ask(attach.Hello{UID: "before", Direct: direct}, never)
		if err == nil || !errors.Is(err, attach.ErrLost) && !strings.Contains(err.Error(), "another one has its name now") { // lost: it was still asking
			t.Errorf("direct %t: it answers %q: %v", direct, text, err)
		}
		if text, err := b.ask(attach.Hello{UID: "u"}, never); err != nil || text != answer {
			t.Errorf("the session that is meant answers %q: %v", text, err)
		}
	}
	if n := len(b.reached()); n != 2 {
		t.Errorf("%d requests have come to the session, want 2", n)
	}
}

// A grant leads to its port alone though more is asked for over the connection, and to its session
// as it was.
func TestGrantOfTheHost(t *testing.T) {
	b := newBench(t)
	offer := func() (o attach.Offer) {
		t.Helper()
		kept := make(chan attach.Offer, 1)
		_, _ = b.ask(attach.Hello{Direct: true}, func(o attach.Offer) (net.Conn, error) {
			kept <- o
			mute, closed := pair(t)
			closed.Close()
			return mute, nil // which ends the way through NATS
		})
		select {
		case o = <-kept:
		default:
			t.Fatal("it has no offer")
		}
		return o
	}
	o := offer()
	if got := b.reached(); len(got) != 0 {
		t.Fatalf("a client that left reached the session: %+v", got)
	}
	c, err := direct.Dial(t.Context(), o, "s", 8080)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, r := range []attach.Request{{Op: attach.OpExec, Argv: []string{"id"}}, {Op: attach.OpForward, Port: 22}} {
		if err := attach.WriteJSON(c, attach.FrameRequest, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := attach.WriteFrame(c, attach.FrameStdinEOF, nil); err != nil {
		t.Fatal(err)
	}
	kind, _, err := attach.ReadFrame(c)
	if err != nil || kind != attach.FrameStarted {
		t.Fatalf("it answers %q: %v", kind, err)
	}
	if kind, text, err := attach.ReadFrame(c); err != nil || kind != attach.FrameStdout || string(text) != "8080\n" {
		t.Errorf("it answers %q %q: %v", kind, text, err)
	}
	if got := b.reached(); len(got) != 1 || got[0].Op != attach.OpForward || got[0].Port != 8080 {
		t.Errorf("the session was asked for %+v", got)
	}
	for name, change := range map[string]func(*schemas.SessionRecord){
		"resumed since": func(r *schemas.SessionRecord) { r.Epoch++ },
		"another":       func(r *schemas.SessionRecord) { r.UID = "v" },
		"moved":         func(r *schemas.SessionRecord) { r.Host = "i" },
	} {
		o := offer()
		b.mu.Lock()
		was, before := b.record, len(b.requests)
		change(&b.record)
		b.mu.Unlock()
		c, err := direct.Dial(t.Context(), o, "s", 8080)
		if err != nil {
			t.Fatal(err)
		}
		if kind, text, err := attach.ReadFrame(c); err != nil || kind != attach.FrameError {
			t.Errorf("%s: it answers %q %q: %v", name, kind, text, err)
		}
		c.Close()
		b.mu.Lock()
		if len(b.requests) != before {
			t.Errorf("%s: the session is reached", name)
		}
		b.record = was
		b.mu.Unlock()
	}
}

// Who watches by a share is counted, and is no use of the session.
func TestWatchersAreCounted(t *testing.T) {
	b := newBench(t)
	hello, err := json.Marshal(attach.Hello{Name: "s", UID: "u"})
	if err != nil {
		t.Fatal(err)
	}
	watch := func() net.Conn {
		t.Helper()
		conn, err := tunnel.Dial(t.Context(), b.nc, schemas.SubjectHost+".h.dial", hello)
		if err == nil {
			err = attach.WriteJSON(conn, attach.FrameRequest, attach.Request{Op: attach.OpWatch, Share: "one"})
		}
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	counts := func(want int) {
		t.Helper()
		for end := time.Now().Add(time.Minute); b.server.Watching("u")["one"] != want; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%v watch, want %d", b.server.Watching("u"), want)
			}
		}
	}
	one, two := watch(), watch()
	counts(2)
	one.Close()
	counts(1)
	two.Close()
	counts(0)
	if got := b.server.Watching("u"); got != nil {
		t.Errorf("%v are left", got)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.said) > 0 || len(b.requests) != 2 || b.requests[0].Op != attach.OpWatch {
		t.Errorf("it counts as %v, and is asked for %+v", b.said, b.requests)
	}
}
