package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/tunnel"
	"github.com/diapause/diapause/schemas"
)

// shareBench is a gateway before an API that knows one share, and a host with its session.
type shareBench struct {
	*bench
	mu     sync.Mutex
	now    schemas.Shared
	gone   bool
	fails  bool          // the host answers with an error
	told   chan struct{} // closed when the API has said that the share is gone
	floods bool          // the session prints without an end
	heard  []byte        // the frames of clients, but for requests
	hello  attach.Hello
	asked  []attach.Request
}

func newShareBench(t *testing.T) *shareBench {
	t.Helper()
	return newShareBenchWith(t, nil)
}

func newShareBenchWith(t *testing.T, with func(*Options)) *shareBench {
	t.Helper()
	b := &shareBench{bench: newBench(t, with), told: make(chan struct{})}
	told := sync.OnceFunc(func() { close(b.told) })
	b.now = schemas.Shared{Share: "one", Name: "acme/web", UID: "u", State: schemas.Running, Host: "h", Generation: 1, Until: time.Now().Add(time.Hour)}
	b.isOf(map[string]schemas.WhoAmI{"dpt_a": {Actor: "token:a", Role: schemas.TokenOwner, Tenant: "acme"}})
	b.answers("shared", func(a asked) (any, *schemas.APIError) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch {
		case a.token == "dpt_a":
			return nil, schemas.FailedError(schemas.ReasonDenied, "it has no share")
		case a.token == "dpt_fails":
			return nil, schemas.FailedError(schemas.ReasonFailed, "session acme/web is broken")
		case b.gone || a.token != "dpt_share":
			told()
			return nil, schemas.FailedError(schemas.ReasonNoToken, "no such token, or it has expired or was revoked").WithHint("`diapause token create` makes one")
		}
		return b.now, nil
	})
	for _, verb := range []string{"ensure", "show", "activity"} {
		b.answers(verb, func(asked) (any, *schemas.APIError) {
			t.Errorf("the API is asked for %s", verb)
			return nil, schemas.FailedError(schemas.ReasonDenied, "never")
		})
	}
	l, err := tunnel.Listen(b.nc, schemas.SubjectHost+".h.dial")
	b.must(err)
	t.Cleanup(func() { l.Close() })
	b.must(b.nc.Flush())
	go func() {
		for {
			conn, err := l.Accept(t.Context())
			if err != nil {
				return
			}
			go b.host(conn)
		}
	}()
	return b
}

// host answers one who watches, and keeps what comes of that client.
func (b *shareBench) host(conn *tunnel.Conn) {
	defer conn.Close()
	r, err := attach.ReadRequest(conn)
	b.mu.Lock()
	_ = json.Unmarshal(conn.Hello(), &b.hello)
	b.asked = append(b.asked, r)
	fails := b.fails
	b.mu.Unlock()
	if fails {
		_ = attach.WriteError(conn, "session acme/web is broken")
		_ = b.nc.Publish(schemas.SubjectSession+".acme.web", nil) // the next try needs no wait
		return
	}
	const paint = "\x1b[Hsecret screen"
	if err == nil && r.Op == attach.OpScreen {
		_ = attach.SendScreen(conn, attach.Screen{Size: attach.Size{Rows: 24, Cols: 80}, At: 100}, []byte(paint))
		return
	}
	if err != nil || r.Op != attach.OpWatch {
		_ = attach.WriteError(conn, "no such request")
		return
	}
	_ = attach.WriteJSON(conn, attach.FrameStarted, attach.Taken{At: 100, Screen: true})
	_ = attach.WriteJSON(conn, attach.FrameScreen, attach.Screen{Size: attach.Size{Rows: 24, Cols: 80}, At: 100, Paint: len(paint)})
	_ = attach.WriteFrame(conn, attach.FramePaint, []byte(paint))
	_ = attach.WriteFrame(conn, attach.FrameStdout, []byte("asks \x1b[c\x1b]52;c;?\x07and prints"))
	b.mu.Lock()
	floods := b.floods
	b.mu.Unlock()
	for piece := make([]byte, 32<<10); floods; {
		if attach.WriteFrame(conn, attach.FrameStdout, piece) != nil {
			return
		}
	}
	for {
		kind, payload, err := attach.ReadFrame(conn)
		if err != nil {
			return
		}
		b.mu.Lock()
		b.heard = append(append(b.heard, kind), payload...)
		b.mu.Unlock()
	}
}

// watch opens a socket with a share, and says the first message.
func (b *shareBench) watch(token, first string) *websocket.Conn {
	b.Helper()
	ws, _, err := websocket.Dial(b.Context(), "ws"+strings.TrimPrefix(b.url, "http")+SharePath, &websocket.DialOptions{Subprotocols: []string{attachProtocol, offersToken + token}})
	b.must(err)
	b.Cleanup(func() { _ = ws.CloseNow() })
	b.must(ws.Write(b.Context(), websocket.MessageText, []byte(first)))
	return ws
}

// reads reads until text was said, or the socket has ended.
func reads(b *bench, ws *websocket.Conn, text string) (said string, err error) {
	b.Helper()
	for text == "" || !strings.Contains(said, text) {
		_, m, err := ws.Read(b.Context())
		if err != nil {
			return said, err
		}
		said += string(m) + "\n"
	}
	return said, nil
}

const firstWatch = `{"type":"attach","client":"x","rows":5,"cols":7,"at":3,"session":"u","run":1,"taken":4}`

// TestShareIsRefused: what isn't the token of a share gets the same answer, all that isn't a WebSocket another.
func TestShareIsRefused(t *testing.T) {
	t.Parallel()
	b := newShareBench(t)
	const upgrade = "Upgrade: websocket"
	for _, c := range []struct {
		what, path string
		headers    []string
		status     int
	}{
		{"no token", SharePath, []string{upgrade, "Authorization: "}, http.StatusUnauthorized},
		{"a token that there isn't", SharePath, []string{upgrade, "Authorization: Bearer dpt_none"}, http.StatusUnauthorized},
		{"one that was changed", SharePath, []string{upgrade, "Authorization: Bearer dpt_sharf"}, http.StatusUnauthorized},
		{"one in the URL", SharePath + "?token=dpt_share", []string{upgrade, "Authorization: "}, http.StatusUnauthorized},
		{"an owner's", SharePath, []string{upgrade}, http.StatusForbidden},
		{"no WebSocket", SharePath, []string{"Authorization: Bearer dpt_share"}, http.StatusUpgradeRequired},
		{"a parameter", SharePath + "?at=0", []string{upgrade, "Authorization: Bearer dpt_share"}, http.StatusBadRequest},
		{"from another page", SharePath, []string{upgrade, "Authorization: Bearer dpt_share", "Origin: https://evil.example"}, http.StatusForbidden},
	} {
		b.refused(c.what, b.do("GET", c.path, "", c.headers...), c.status)
	}
	// At the path of a terminal the API is asked who has it, and knows no such token.
	b.refused("at the terminal of its session", b.do("GET", prefix+"/sessions/acme.web/attach", "", upgrade, "Authorization: Bearer dpt_share"), http.StatusUnauthorized)
}

// TestShareIsForOnePath: each other operation refuses the token of a share as one that there isn't, with one question to the
// API, which knows it for that one verb. Each operation gets another token: the guard remembers those that are none.
func TestShareIsForOnePath(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	var mu sync.Mutex
	asks := map[string][]string{} // verbs, by token
	_, err := b.nc.Subscribe(schemas.SubjectBearer+".>", func(m *nats.Msg) {
		verb, token := strings.TrimPrefix(m.Subject, schemas.SubjectBearer+"."), m.Header.Get(schemas.HeaderToken)
		mu.Lock()
		asks[token] = append(asks[token], verb)
		mu.Unlock()
		e := schemas.FailedError(schemas.ReasonNoToken, "no such token")
		answer := &nats.Msg{Subject: m.Reply, Header: nats.Header{micro.ErrorCodeHeader: {e.Code}}}
		answer.Data, _ = json.Marshal(e)
		_ = b.nc.PublishMsg(answer)
	})
	b.must(err)
	b.must(b.nc.Flush())
	tried := 0
	for path, item := range b.gate.doc.OpenAPI().Paths {
		at := strings.NewReplacer("{session}", "acme.web", "{scope}", "session:acme.web", "{port}", "8080").Replace(path)
		at = regexp.MustCompile(`{[a-z]+}`).ReplaceAllString(at, "one")
		for method, op := range operations(item) {
			if op.OperationID == verbShared || op.OperationID == "login" {
				continue // they take others: the second a code
			}
			tried++
			token, body := fmt.Sprintf("dpt_share%d", tried), ""
			if method == "POST" || method == "PUT" || method == "PATCH" {
				body = "{}"
			}
			b.gate.rates.mu.Lock()
			clear(b.gate.rates.wrong) // of one address
			b.gate.rates.mu.Unlock()
			b.refused(op.OperationID, b.do(method, at, body, "Authorization: Bearer "+token, "Upgrade: websocket"), http.StatusUnauthorized)
			mu.Lock()
			if got := asks[token]; len(got) != 1 || got[0] == verbShared {
				t.Errorf("%s asks the API for %v", op.OperationID, got)
			}
			mu.Unlock()
		}
	}
	if tried < 40 {
		t.Errorf("only %d operations were tried", tried)
	}
}

// TestShareIsWatched: a client with a share sees, filtered as others do, and nothing of it reaches the session.
func TestShareIsWatched(t *testing.T) {
	t.Parallel()
	b := newShareBench(t)
	ws := b.watch("dpt_share", firstWatch)
	said, err := reads(b.bench, ws, "prints")
	b.must(err)
	if !strings.Contains(said, "secret screen") || !strings.Contains(said, "asks and prints") {
		t.Errorf("it sees %q", said)
	}
	for _, word := range []string{`"host"`, `"taken"`, "acme"} {
		if strings.Contains(said, word) {
			t.Errorf("it is told %s in %q", word, said)
		}
	}
	b.mu.Lock()
	if b.hello.Presence || b.hello.Input || b.hello.UID != "u" || len(b.asked) != 1 {
		t.Errorf("the host is asked by %+v for %+v", b.hello, b.asked)
	}
	if r := b.asked[0]; r.Op != attach.OpWatch || r.Share != "one" || r.Seen != 0 || r.Rows != 0 || r.Typist != "" || r.Stdin {
		t.Errorf("the session is asked for %+v", r)
	}
	b.mu.Unlock()
	b.must(ws.Write(t.Context(), websocket.MessageText, []byte(`{"type":"shown","bytes":10}`)))
	for what, say := range map[string]func(*websocket.Conn) error{
		"types": func(ws *websocket.Conn) error {
			return ws.Write(t.Context(), websocket.MessageBinary, []byte("\x00\x00\x00\x00\x00\x00\x00\x00rm\r"))
		},
		"types little": func(ws *websocket.Conn) error { return ws.Write(t.Context(), websocket.MessageBinary, nil) },
		"resizes": func(ws *websocket.Conn) error {
			return ws.Write(t.Context(), websocket.MessageText, []byte(`{"type":"resize","rows":1,"cols":1}`))
		},
		"wakes": func(ws *websocket.Conn) error {
			return ws.Write(t.Context(), websocket.MessageText, []byte(`{"type":"wake"}`))
		},
		"attaches more": func(ws *websocket.Conn) error {
			return ws.Write(t.Context(), websocket.MessageText, []byte(firstWatch))
		},
	} {
		ws := b.watch("dpt_share", firstWatch)
		b.must(say(ws))
		if _, err := reads(b.bench, ws, ""); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
			t.Errorf("it %s: %v", what, err)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.heard) > 0 {
		t.Errorf("the session has got %q", b.heard)
	}
}

// TestShareOfOneThatSleeps: it is told so, sees the last screen, and wakes nothing.
func TestShareOfOneThatSleeps(t *testing.T) {
	t.Parallel()
	b := newShareBench(t)
	b.now.State = schemas.Suspended
	said, err := reads(b.bench, b.watch("dpt_share", firstWatch), "secret screen")
	if err != nil || !strings.Contains(said, `"state":"suspended"`) {
		t.Errorf("it sees %q: %v", said, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.asked) != 1 || b.asked[0].Op != attach.OpScreen || b.hello.Presence || b.hello.Input {
		t.Errorf("the host is asked by %+v for %+v", b.hello, b.asked)
	}
}

// TestWatchersLeaveStreams: one tenant's shares take no more than its part, all no more than half, so terminals still open.
func TestWatchersLeaveStreams(t *testing.T) {
	t.Parallel()
	b := newShareBench(t)
	s := b.gate.streams
	fill := func(of schemas.Tenant) (n int, last *Problem, ends []func()) {
		for ; last == nil && n <= maxStreams; n++ {
			var end func()
			if _, end, last = s.watch(t.Context(), fmt.Sprintf("share:%s%d", of, n), of); last == nil {
				ends = append(ends, end)
			}
		}
		return n - 1, last, ends
	}
	n, p, ends := fill("acme")
	if n != maxWatchedOf || p == nil || p.Status != http.StatusTooManyRequests {
		t.Fatalf("%d watch one tenant's, then %v", n, p)
	}
	_, answer, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(b.url, "http")+SharePath, &websocket.DialOptions{Subprotocols: []string{attachProtocol, offersToken + "dpt_share"}})
	if err == nil || answer == nil || answer.StatusCode != http.StatusTooManyRequests {
		t.Errorf("one more: %v", err)
	}
	for i := range maxWatched/maxWatchedOf - 1 {
		fill(schemas.Tenant(fmt.Sprint("t", i)))
	}
	if n, p, _ := fill("other"); n != 0 || p == nil || p.Status != http.StatusServiceUnavailable {
		t.Errorf("%d more watch, then %v", n, p)
	}
	_, end, p := s.begin(t.Context(), "token:a")
	if p != nil {
		t.Fatalf("a terminal besides: %v", p)
	}
	end()
	for _, end := range ends {
		end()
	}
	ws := b.watch("dpt_share", firstWatch)
	_, err = reads(b.bench, ws, "prints")
	b.must(err)
}

// TestShareTellsNoNames: what goes wrong is for the log; who watches is told no name of a session.
func TestShareTellsNoNames(t *testing.T) {
	t.Parallel()
	var log lockedText
	b := newShareBenchWith(t, func(o *Options) { o.Log = logTo(&log) })
	p := b.refused("an error of the API", b.do("GET", SharePath, "", "Upgrade: websocket", "Authorization: Bearer dpt_fails"), http.StatusInternalServerError)
	if p.Detail != "the terminal can't be shown now" || strings.Contains(fmt.Sprint(p), "acme") {
		t.Errorf("it is told %+v", p)
	}
	b.fails = true
	said, err := reads(b.bench, b.watch("dpt_share", firstWatch), "")
	if websocket.CloseStatus(err) != websocket.StatusInternalError || !strings.Contains(said, "the terminal can't be shown now") || strings.Contains(said, "acme") {
		t.Errorf("it is told %s and ends with %v", said, err)
	}
	if strings.Count(log.String(), "session acme/web is broken") != 2 {
		t.Errorf("the log has %s", log.String())
	}
}

// TestShareEnds: who watches is cut off when the share ends, and told as one who comes later.
func TestShareEnds(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(b *shareBench){
		"it is taken back": func(b *shareBench) {
			b.mu.Lock()
			b.gone = true
			b.mu.Unlock()
			b.must(b.nc.Publish(schemas.SubjectSession+".acme.web", nil)) // the session has changed
		},
		"by its time":                   func(b *shareBench) {},
		"by its time, before it begins": func(b *shareBench) {},
	} {
		t.Run(what, func(t *testing.T) {
			b, byTime := newShareBench(t), what != "it is taken back"
			switch what {
			case "by its time":
				b.now.Until = time.Now().Add(time.Second)
			case "by its time, before it begins": // as on a slow machine
				b.now.Until = time.Now()
			}
			ws := b.watch("dpt_share", firstWatch)
			if !byTime {
				_, err := reads(b.bench, ws, "prints")
				b.must(err)
			}
			end(b)
			said, err := reads(b.bench, ws, "")
			if websocket.CloseStatus(err) != websocket.StatusInternalError || !strings.Contains(said, `"status":401`) || !strings.Contains(said, "no such token") {
				t.Errorf("it is told %q and ends with %v", said, err)
			}
			if byTime {
				return
			}
			_, answer, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(b.url, "http")+SharePath, &websocket.DialOptions{Subprotocols: []string{attachProtocol, offersToken + "dpt_share"}})
			if err == nil || answer.StatusCode != http.StatusUnauthorized {
				t.Errorf("one who comes later: %v", err)
			}
		})
	}
}

// unbuffered is a network of one connection, which takes a byte from one end when the other reads it.
type unbuffered struct {
	accepts chan net.Conn
	client  net.Conn
	read    []byte // of what the server writes, ahead of the client
}

func (u *unbuffered) Accept() (net.Conn, error) {
	if conn, ok := <-u.accepts; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (u *unbuffered) Close() error   { return nil }
func (u *unbuffered) Addr() net.Addr { return u.client.LocalAddr() }

// clientEnd is the client's end of the connection.
type clientEnd struct {
	net.Conn
	of *unbuffered
}

func (c clientEnd) Read(b []byte) (int, error) {
	if n := copy(b, c.of.read); n > 0 {
		c.of.read = c.of.read[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}

// TestShareEndsAmidAMessage: who takes a message slowly while the share ends is told why, too.
func TestShareEndsAmidAMessage(t *testing.T) {
	t.Parallel()
	b, u := newShareBench(t), &unbuffered{accepts: make(chan net.Conn, 1)}
	b.floods = true
	server, client := net.Pipe()
	u.client = client
	u.accepts <- server
	srv := &http.Server{Handler: b.gate.Handler(), ReadHeaderTimeout: time.Minute}
	go func() { _ = srv.Serve(u) }()
	t.Cleanup(func() {
		close(u.accepts)
		srv.Close()
	})
	ws, _, err := websocket.Dial(t.Context(), "ws://127.0.0.1"+SharePath, &websocket.DialOptions{
		Subprotocols: []string{attachProtocol, offersToken + "dpt_share"},
		HTTPClient: &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			return clientEnd{client, u}, nil
		}}},
	})
	b.must(err)
	defer func() { _ = ws.CloseNow() }()
	ws.SetReadLimit(-1)
	b.must(ws.Write(t.Context(), websocket.MessageText, []byte(firstWatch)))
	_, err = reads(b.bench, ws, "prints")
	b.must(err)
	u.read = make([]byte, 1)
	_, err = client.Read(u.read) // of a message that goes on until the client reads
	b.must(err)
	b.mu.Lock()
	b.gone = true
	b.mu.Unlock()
	b.must(b.nc.Publish(schemas.SubjectSession+".acme.web", nil))
	<-b.told
	time.Sleep(100 * time.Millisecond) // nothing is to happen; with less, there may be nothing to prove
	last := ""
	for err == nil {
		var m []byte
		if _, m, err = ws.Read(t.Context()); err == nil {
			last = string(m)
		}
	}
	if websocket.CloseStatus(err) != websocket.StatusInternalError || !strings.Contains(last, `"status":401`) {
		t.Errorf("it is told %.200q and ends with %v", last, err)
	}
}

// TestShareCutWithoutAnswer: what the API no longer says holds is cut, too.
func TestShareCutWithoutAnswer(t *testing.T) {
	t.Parallel()
	if err := confirmed(time.Now().Add(-shareLost-time.Second), errors.New("no answer"), time.Now()); err == nil {
		t.Error("it goes on")
	}
	if err := confirmed(time.Now(), errors.New("no answer"), time.Now()); err != nil {
		t.Errorf("it is cut at once: %v", err)
	}
	for _, reason := range []schemas.Reason{schemas.ReasonNoToken, schemas.ReasonDenied} {
		if err := confirmed(time.Now(), schemas.FailedError(reason, "no"), time.Now()); problem(err).Status != http.StatusUnauthorized {
			t.Errorf("%s: %v", reason, err)
		}
	}
}
