package attack

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/schemas"
)

// What comes of trying more than watching with the token of a share.
const (
	asNone  = "401, as a token that there isn't"
	isCut   = "the socket ends (1008)"
	notSeen = "it isn't shown"
)

// peek is what one who has the token of a share tries.
type peek struct {
	what, want string
	try        func(h *holder) string
}

// holder has the token of a share of the session "work".
type holder struct {
	*testing.T
	*stack.Stack
	base, token string
	id          string // of the share
	unknown     string // the answer to a token that there isn't
}

func peeks() []peek {
	at := func(what, method, path string) peek {
		return peek{what, asNone, func(h *holder) string { return h.ask(method, path, h.token, "") }}
	}
	says := func(what, message string, kind websocket.MessageType) peek {
		return peek{what, isCut, func(h *holder) string { return h.says(kind, message) }}
	}
	other := func(what string, of func(h *holder) string) peek {
		return peek{what, asNone, func(h *holder) string { return h.ask("GET", "/api/v1/shared", of(h), "") }}
	}
	return []peek{
		{"each operation of the HTTP API but to watch", asNone, func(h *holder) string { return h.all() }},
		at("use the terminal of its session", "GET", "/api/v1/sessions/work/attach"),
		at("use the desktop of its session", "GET", "/api/v1/sessions/work/desktop"),
		at("watch the desktop of its session", "GET", "/api/v1/sessions/work/desktop?view=true"),
		at("reach a port of its session", "GET", "/s/default/work/8080/"),
		{"log a browser in", asNone, func(h *holder) string { return h.ask("POST", "/api/v1/login", "", `{"code":"`+h.token+`"}`) }},
		says("type", "\x00\x00\x00\x00\x00\x00\x00\x00echo ty''ped\r", websocket.MessageBinary),
		says("change the size of the terminal", `{"type":"resize","rows":3,"cols":5}`, websocket.MessageText),
		says("wake the session", `{"type":"wake"}`, websocket.MessageText),
		{"see what was printed before the share, by a position", notSeen, func(h *holder) string { return h.before() }},
		other("the share's id", func(h *holder) string { return h.id }),
		other("the token with another letter", func(h *holder) string {
			last := "A"
			if strings.HasSuffix(h.token, last) {
				last = "E"
			}
			return h.token[:len(h.token)-1] + last
		}),
		other("the token in capitals", func(h *holder) string { return strings.ToUpper(h.token) }),
		other("the token with more behind it", func(h *holder) string { return h.token + "." + h.token[4:] }),
	}
}

// endedShares are what ends a share; its token is none afterwards.
func endedShares() []peek {
	ended := func(what string, args ...string) peek {
		return peek{what, asNone, func(h *holder) string {
			h.must(args...)
			return h.ask("GET", "/api/v1/shared", h.token, "")
		}}
	}
	return []peek{
		ended("watch after unshare", "unshare", "work"),
		{"watch after the share's token was revoked", asNone, func(h *holder) string {
			h.must("token", "revoke", h.id)
			if v, err := h.View("work"); err != nil || len(v.Shares) > 0 {
				h.Errorf("it is shared by %+v: %v", v.Shares, err)
			}
			return h.ask("GET", "/api/v1/shared", h.token, "")
		}},
		{"watch after the share's time", asNone, func(h *holder) string {
			h.share("--for", "1s")
			for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
				if got := h.ask("GET", "/api/v1/shared", h.token, ""); got == asNone || time.Now().After(end) {
					return got
				}
			}
		}},
		ended("watch a session that was removed", "rm", "--yes", "work"),
		{"watch a later session of the same name", asNone, func(h *holder) string {
			h.must("rm", "--yes", "work")
			h.shell()
			return h.ask("GET", "/api/v1/shared", h.token, "")
		}},
	}
}

func (h *holder) must(args ...string) string {
	h.Helper()
	out, err := h.Must(args...)
	if err != nil {
		h.Fatal(err)
	}
	return out
}

// shell runs the session, with a secret that its screen shows no more.
func (h *holder) shell() {
	h.Helper()
	h.must("run", "--name", "work", "--idle", "never", "--tty", "--", "sh", "-c", `echo pass''word; printf '\033[2J\033[H'; echo shown; exec sh -i`)
}

// share shares it.
func (h *holder) share(args ...string) {
	h.Helper()
	var l struct{ ID, Link string }
	if err := json.Unmarshal([]byte(h.must(append([]string{"share", "work", "--json"}, args...)...)), &l); err != nil {
		h.Fatal(err)
	}
	at, token, _ := strings.Cut(l.Link, "#")
	h.base, h.token, h.id = strings.TrimSuffix(at, "/shared"), token, l.ID
}

// ask asks with a token, and says what comes of it.
func (h *holder) ask(method, path, token, body string) string {
	h.Helper()
	r, err := http.NewRequestWithContext(h.Context(), method, h.base+path, strings.NewReader(body))
	if err != nil {
		h.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for {
		answer, err := http.DefaultClient.Do(r.Clone(h.Context()))
		if err != nil {
			h.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		switch {
		case err != nil:
			h.Fatal(err)
		case answer.StatusCode == http.StatusTooManyRequests: // of one address
			time.Sleep(time.Second)
			if body != "" {
				r.Body = io.NopCloser(strings.NewReader(body))
			}
			continue
		case answer.StatusCode == http.StatusUnauthorized && (string(text) == h.unknown || strings.HasPrefix(path, "/s/")):
			return asNone // ports have an answer of their own
		}
		return fmt.Sprintf("%d: %s", answer.StatusCode, text)
	}
}

// all asks for each operation of the HTTP API.
func (h *holder) all() string {
	h.Helper()
	answer, err := http.Get(h.base + "/api/v1/openapi.json")
	if err != nil {
		h.Fatal(err)
	}
	defer answer.Body.Close()
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string           `json:"operationId"`
			Security    *json.RawMessage `json:"security"`
		} `json:"paths"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&doc); err != nil {
		h.Fatal(err)
	}
	tried := 0
	for path, of := range doc.Paths {
		path = strings.NewReplacer("{session}", "work", "{scope}", "session:work", "{port}", "8080", "{share}", h.id, "{token}", h.id).Replace(path)
		for method, op := range of {
			if op.OperationID == "shared" || op.OperationID == "login" {
				continue
			}
			tried++
			body := "{}"
			if method == "get" || method == "delete" {
				body = ""
			}
			if got := h.ask(strings.ToUpper(method), path, h.token, body); got != asNone {
				return fmt.Sprintf("%s %s: %s", method, path, got)
			}
		}
	}
	if tried < 40 {
		h.Errorf("only %d operations were tried", tried)
	}
	return asNone
}

// watch opens a socket. The token may be refused for a while, after it was none elsewhere.
func (h *holder) watch() *websocket.Conn {
	h.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		ws, _, err := websocket.Dial(h.Context(), "ws"+strings.TrimPrefix(h.base, "http")+"/api/v1/shared", &websocket.DialOptions{
			Subprotocols: []string{"diapause.terminal.v1"}, HTTPHeader: http.Header{"Authorization": {"Bearer " + h.token}},
		})
		if err == nil {
			h.Cleanup(func() { _ = ws.CloseNow() })
			return ws
		}
		if time.Now().After(end) {
			h.Fatal(err)
		}
	}
}

// says says something after the first message, and says what comes of it.
func (h *holder) says(kind websocket.MessageType, message string) string {
	h.Helper()
	ws := h.watch()
	for _, m := range []struct {
		kind websocket.MessageType
		text string
	}{{websocket.MessageText, `{"type":"attach","client":"x"}`}, {kind, message}} {
		if err := ws.Write(h.Context(), m.kind, []byte(m.text)); err != nil {
			return err.Error()
		}
	}
	for {
		if _, _, err := ws.Read(h.Context()); websocket.CloseStatus(err) == websocket.StatusPolicyViolation {
			return isCut
		} else if err != nil {
			return err.Error()
		}
	}
}

// before asks for what was printed before, as a client that was attached would.
func (h *holder) before() string {
	h.Helper()
	v, err := h.View("work")
	if err != nil {
		h.Fatal(err)
	}
	ws := h.watch()
	first := fmt.Sprintf(`{"type":"attach","client":"x","session":%q,"run":%d,"at":1,"taken":0}`, v.UID, v.Generation)
	if err := ws.Write(h.Context(), websocket.MessageText, []byte(first)); err != nil {
		h.Fatal(err)
	}
	for {
		_, m, err := ws.Read(h.Context())
		switch {
		case err != nil:
			return err.Error()
		case strings.Contains(string(m), "password"):
			return "it is shown"
		case strings.Contains(string(m), "shown"):
			return notSeen
		}
	}
}

// Who has the token of a share watches its terminal, and does nothing else.
func TestShare(t *testing.T) {
	s, _ := stack.Fresh(t)
	if err := s.Up("--docker", "none", "--http", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	h := &holder{T: t, Stack: s}
	h.shell()
	h.share("--for", "1h")
	h.unknown = strings.TrimPrefix(h.ask("GET", "/api/v1/shared", schemas.TokenPrefix+strings.Repeat("A", 43), ""), "401: ")
	if !strings.Contains(h.unknown, "no such token") {
		t.Fatalf("a token that there isn't is answered with %s", h.unknown)
	}
	before, err := s.View("work")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range peeks() {
		if got := p.try(h); got != p.want {
			t.Errorf("%s: %s, want %s", p.what, got, p.want)
		}
	}
	if out := h.must("screen", "work"); strings.Contains(out, "typed") {
		t.Errorf("it was typed:\n%s", out)
	}
	h.sleeps()
	h.must("resume", "work")
	after, err := s.View("work")
	if err != nil || after.UID != before.UID || len(after.Shares) != 1 {
		t.Errorf("the session was\n%+v\nis\n%+v, %v", before, after, err)
	}
	h.must("unshare", "work", "--all")
	for _, p := range endedShares() {
		if _, err := s.View("work"); err != nil { // the one before has removed it
			h.shell()
		}
		h.share("--for", "1h")
		if got := p.try(h); got != p.want {
			t.Errorf("%s: %s, want %s", p.what, got, p.want)
		}
	}
	for _, file := range []string{s.Log(), h.must("history", "work"), h.must("token", "ls", "--json")} {
		if strings.Contains(file, h.token[len(schemas.TokenPrefix):]) {
			t.Errorf("the token is in\n%s", file)
		}
	}
	h.must("audit", "--verify")
}

// sleeps has the session sleep while it is watched, and tried to be woken.
func (h *holder) sleeps() {
	h.Helper()
	h.must("suspend", "work")
	for _, message := range []string{`{"type":"wake"}`, `{"type":"attach","client":"y"}`} {
		if got := h.says(websocket.MessageText, message); got != isCut {
			h.Errorf("%s of one that sleeps: %s", message, got)
		}
	}
	if got := h.says(websocket.MessageBinary, "\x00\x00\x00\x00\x00\x00\x00\x00x"); got != isCut {
		h.Errorf("typed to one that sleeps: %s", got)
	}
	if v, err := h.View("work"); err != nil || v.State != schemas.Suspended {
		h.Errorf("it is %s: %v", v.State, err)
	}
}
