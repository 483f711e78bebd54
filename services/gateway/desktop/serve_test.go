package desktop

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/rfb"
	"github.com/diapause/diapause/schemas"
)

// What a client says: how it begins, asks for a picture, and what it does.
var (
	hello   = "RFB 003.008\n\x01\x00"
	asks    = "\x03\x01\x00\x00\x00\x00\x03\x20\x02\x58"
	key     = "\x04\x01\x00\x00\x00\x00\x00a"
	pointer = "\x05\xff\x00\x10\x00\x10"
	text    = "\x06\x00\x00\x00\x00\x00\x00\x05hello"
	size    = "\xfb\x00\x03\x20\x02\x58\x01\x00" + strings.Repeat("s", 16)
)

// limit bounds each wait: it is only reached when something is broken.
const limit = time.Minute

// session is one whose looks are states in turn, the last one for ever; a wake has it run.
type session struct {
	mu      sync.Mutex
	states  []schemas.State
	woken   int
	refuses int // so many dials
	desktop func(net.Conn)
}

func (s *session) View(context.Context) (schemas.View, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := schemas.View{UID: "u", State: s.states[0]}
	if len(s.states) > 1 {
		s.states = s.states[1:]
	}
	return v, nil
}

func (s *session) Wake(context.Context) (schemas.View, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.woken++
	s.states = []schemas.State{schemas.Running, schemas.Suspended}
	return schemas.View{}, nil
}

func (s *session) Dial(context.Context, schemas.View) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuses > 0 {
		s.refuses--
		s.states = []schemas.State{schemas.Running}
		return nil, attach.RefusedError("nothing listens")
	}
	here, there := net.Pipe()
	go func() {
		defer there.Close()
		s.desktop(there)
	}()
	return here, nil
}

// News has it looked at again at once.
func (*session) News(context.Context) (<-chan *schemas.Progress, error) {
	news := make(chan *schemas.Progress)
	close(news)
	return news, nil
}

// used notes what a session is used for.
type used chan string

func (u used) Present() (leave func()) {
	u <- "present"
	return func() { u <- "away" }
}

func (u used) Input() { u <- "input" }

func (u used) is(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-u:
		if got != want {
			t.Fatalf("it is %s: want %s", got, want)
		}
	case <-time.After(limit):
		t.Fatalf("it never is %s", want)
	}
}

// serves opens a socket, and gives the client's end of it.
func serves(t *testing.T, o Options) (*websocket.Conn, used) {
	t.Helper()
	use := make(used, 16)
	o.Use, o.Tick, o.WriteWait = use, time.Hour, limit
	o.Problem = func(err error) (any, bool) { return err.Error(), false }
	served := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(served)
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		o.Deadline = func(time.Time) error { return nil }
		Serve(r.Context(), ws, o)
	}))
	t.Cleanup(srv.Close)
	ws, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(srv.URL, "http"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = ws.CloseNow()
		<-served
	})
	return ws, use
}

func reads(t *testing.T, ws *websocket.Conn) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	_, b, err := ws.Read(ctx)
	return string(b), err
}

// hears checks what the client is told next.
func hears(t *testing.T, ws *websocket.Conn, want ...string) {
	t.Helper()
	for _, w := range want {
		if got, err := reads(t, ws); !strings.Contains(got, w) || err != nil {
			t.Fatalf("it says %q, %v: want %q", got, err, w)
		}
	}
}

func says(t *testing.T, ws *websocket.Conn, kind websocket.MessageType, what string) {
	t.Helper()
	if err := ws.Write(t.Context(), kind, []byte(what)); err != nil {
		t.Fatal(err)
	}
}

func ends(t *testing.T, ws *websocket.Conn, want websocket.StatusCode) {
	t.Helper()
	if got, err := reads(t, ws); websocket.CloseStatus(err) != want {
		t.Errorf("it says %q, and ends with %v: want %v", got, err, want)
	}
}

// TestServe: bytes go both ways; a page that isn't visible is no use, keys are; at the end the client is told of the suspend.
func TestServe(t *testing.T) {
	arrived := make(chan string, 1)
	s := &session{states: []schemas.State{schemas.Running, schemas.Suspended}, desktop: func(c net.Conn) {
		_, _ = io.WriteString(c, "RFB 003.008\n")
		b := make([]byte, len(hello+key))
		_, _ = io.ReadFull(c, b)
		arrived <- string(b)
	}}
	ws, use := serves(t, Options{Session: s})
	hears(t, ws, `"attached"`, "RFB 003.008\n")
	use.is(t, "present")
	says(t, ws, websocket.MessageText, `{"type":"visible","visible":false}`)
	use.is(t, "away")
	says(t, ws, websocket.MessageText, `{"type":"visible","visible":true}`)
	use.is(t, "present")
	says(t, ws, websocket.MessageBinary, hello)
	says(t, ws, websocket.MessageBinary, key)
	use.is(t, "input")
	if got := <-arrived; got != hello+key {
		t.Errorf("the desktop gets %q", got)
	}
	hears(t, ws, `"state":"suspended"`)
	ends(t, ws, websocket.StatusNormalClosure)
	use.is(t, "away")
	if s.woken != 0 {
		t.Error("it is woken")
	}
}

// TestInputToNone: keys for a desktop that is gone are no use of the session, which they would resume.
func TestInputToNone(t *testing.T) {
	use := make(used, 16)
	s := &socket{Options: Options{Use: use}, began: true}
	if err := s.took([]byte(hello + key)); err != nil {
		t.Fatal(err)
	}
	if len(use) > 0 {
		t.Errorf("it is %s", <-use)
	}
}

// TestWatchingArrives: of a client that watches the session gets what shows pictures alone.
func TestWatchingArrives(t *testing.T) {
	arrived := make(chan string, 1)
	s := &session{states: []schemas.State{schemas.Running}, desktop: func(c net.Conn) {
		_, _ = io.WriteString(c, "RFB 003.008\n")
		b := make([]byte, len(hello+asks))
		_, _ = io.ReadFull(c, b)
		arrived <- string(b)
	}}
	ws, use := serves(t, Options{Session: s, Watch: true})
	hears(t, ws, `"attached"`, "RFB 003.008\n")
	says(t, ws, websocket.MessageBinary, hello+key+pointer+text+size+asks)
	if got, want := <-arrived, "RFB 003.008\n\x01\x01"+asks; got != want {
		t.Errorf("the desktop gets %q: want %q", got, want)
	}
	use.is(t, "present")
}

// TestWakes: looking wakes nothing, and one wish wakes once, also if the session is suspended before its desktop is there.
func TestWakes(t *testing.T) {
	idle := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	asleep := []schemas.State{schemas.Suspended}
	s := &session{states: slices.Clone(asleep), desktop: idle}
	ws, _ := serves(t, Options{Session: s})
	hears(t, ws, `"state":"suspended"`)
	ends(t, ws, websocket.StatusNormalClosure)
	if s.woken != 0 {
		t.Error("looking wakes it")
	}

	s = &session{states: slices.Clone(asleep), desktop: idle}
	ws, _ = serves(t, Options{Session: s, Wake: true})
	hears(t, ws, `"state":"suspended"`, `"attached"`)
	if s.woken != 1 {
		t.Errorf("it is woken %d times", s.woken)
	}

	s = &session{states: slices.Clone(asleep), refuses: 1, desktop: idle}
	ws, _ = serves(t, Options{Session: s, Wake: true})
	hears(t, ws, `"state":"suspended"`, `"attached"`)
	if s.woken != 1 {
		t.Errorf("it is woken %d times while its desktop begins", s.woken)
	}
}

// TestServers: what a client says goes to no server that would take it for something else.
func TestServers(t *testing.T) {
	for version, well := range map[string]bool{
		"RFB 003.008\n": true, "RFB 003.007\n": true, "RFB 003.889\n": true, "RFB 005.000\n": true,
		"RFB 003.003\n": false, "RFB 003.006\n": false, "HTTP/1.1 400": false, "SSH-2.0-Open": false,
	} {
		if err := rfb.CheckServer([]byte(version)); (err == nil) != well {
			t.Errorf("%q: %v", version, err)
		}
	}
	s := &session{states: []schemas.State{schemas.Running}, desktop: func(c net.Conn) {
		_, _ = io.WriteString(c, "RFB 003.003\n")
		if b, _ := io.ReadAll(c); len(b) > 0 {
			t.Errorf("it gets %q", b)
		}
	}}
	ws, use := serves(t, Options{Session: s, Watch: true})
	hears(t, ws, `"attached"`, "RFB 3.7")
	ends(t, ws, websocket.StatusInternalError)
	if len(use) > 0 {
		t.Errorf("it is %s", <-use)
	}
}

// TestEnds: what isn't of the protocol ends the socket, and so does a session where no desktop is.
func TestEnds(t *testing.T) {
	speaks := func(c net.Conn) {
		_, _ = io.WriteString(c, "RFB 003.008\n")
		_, _ = io.Copy(io.Discard, c)
	}
	for what, c := range map[string]struct {
		kind websocket.MessageType
		says string
	}{
		"a text that isn't one": {websocket.MessageText, `{"type":"resize"}`},
		"no RFB":                {websocket.MessageBinary, "GET / HTTP/1.1\r\n\r\n"},
	} {
		ws, _ := serves(t, Options{Session: &session{states: []schemas.State{schemas.Running}, desktop: speaks}})
		hears(t, ws, `"attached"`, "RFB 003.008\n")
		says(t, ws, c.kind, c.says)
		t.Log(what)
		ends(t, ws, websocket.StatusPolicyViolation)
	}
	ws, _ := serves(t, Options{Session: &session{states: []schemas.State{schemas.Starting, schemas.Running}, refuses: tries}})
	hears(t, ws, `"state":"starting"`, "nothing listens")
	ends(t, ws, websocket.StatusInternalError)
	if passes(errors.New("another")) {
		t.Error("an error that isn't known passes")
	}
}
