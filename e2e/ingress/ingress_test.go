package ingress

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/schemas"
)

const (
	work  = "8080--work.default.localhost"
	json  = "Accept: application/json\n"
	probe = "User-Agent: kube-probe/1.34\nAccept: */*\n"
)

// long reports whether there is time for more.
func long() bool { return os.Getenv("DIAPAUSE_LONG") != "" }

func TestIngress(t *testing.T) {
	t.Parallel()
	s, _ := stack.Fresh(t)
	if err := s.Up("--docker", "none"); err != nil {
		t.Fatal(err)
	}
	begin(t, s, "work", "--idle", "never")
	p := ingress(t, s, "--wake-timeout", "2m")
	t.Run("first requests", func(t *testing.T) { firstRequests(t, s, p) })
	t.Run("during suspends", func(t *testing.T) { duringSuspends(t, s, p) })
	t.Run("upload", func(t *testing.T) { upload(t, s, p) })
	t.Run("who is asking", func(t *testing.T) { whoIsAsking(t, s, p) })
	t.Run("forged", func(t *testing.T) { forged(t, s, p) })
	t.Run("tcp", func(t *testing.T) { tcp(t, s) })
	t.Run("refused", func(t *testing.T) { refused(t, s) })
	t.Run("slow clients", func(t *testing.T) { slowClients(t, p) })
	t.Run("the daemon is started again", func(t *testing.T) { startedAgain(t, s, p) })
}

// firstRequests resumes the session by one request after another, with a body too. None fails, and the memory of
// the session is that of before.
func firstRequests(t *testing.T, s *stack.Stack, p *proxy) {
	resumes(t, s, p, "work", 19)
	time.Sleep(1100 * time.Millisecond) // until it isn't believed to run, so that the next request is the one that resumes it
	suspend(t, s, "work")
	p.want(http.MethodPost, work, "/count?secret=20", json, strings.NewReader("a question"), "20")
	for i := range 10 {
		if name := fmt.Sprintf("first-%d", i); long() {
			begin(t, s, name, "--idle", "never")
			resumes(t, s, p, name, 50)
			must(t, s, "rm", "--yes", name)
		}
	}
	for _, verb := range []string{"history", "explain"} {
		if out := must(t, s, verb, "work"); !strings.Contains(out, "POST /count to port 8080 (fetch by this machine)") || strings.Contains(out, "secret") {
			t.Errorf("%s doesn't name the request, or more of it: %s", verb, out)
		}
	}
}

func resumes(t *testing.T, s *stack.Stack, p *proxy, name string, rounds int) {
	for i := range rounds {
		if i > 0 {
			suspend(t, s, name)
		}
		method, body := http.MethodGet, io.Reader(nil)
		if i%2 == 1 {
			method, body = http.MethodPost, strings.NewReader("a question")
		}
		p.want(method, "8080--"+name+".default.localhost", fmt.Sprintf("/count?secret=%d", i), json, body, fmt.Sprint(i+1))
	}
}

// suspend suspends a session, also if the end of a request is told of after its answer, which undoes a suspend.
func suspend(t *testing.T, s *stack.Stack, name string) {
	t.Helper()
	until(t, name+" is suspended", func() bool { return s.Do("suspend", name).Code == 0 && state(t, s, name) == schemas.Suspended })
}

// duringSuspends asks while the session is being suspended, which undoes that, or resumes it.
func duringSuspends(t *testing.T, s *stack.Stack, p *proxy) {
	for range 3 {
		suspended := make(chan struct{})
		go func() {
			defer close(suspended)
			s.Do("suspend", "work") // which may be undone
		}()
		for over := false; !over; {
			select {
			case <-suspended:
				over = true // and once more after that
			default:
			}
			if status, _, text := p.ask(http.MethodGet, work, "/count", json, nil); status != http.StatusOK {
				t.Fatalf("it gives %d: %s", status, text)
			}
		}
	}
}

func upload(t *testing.T, s *stack.Stack, p *proxy) {
	suspend(t, s, "work")
	p.want(http.MethodPost, work, "/digest", "", large(), digest(large()))
	until(t, "its end was told of", func() bool { return !strings.Contains(must(t, s, "explain", "work"), "presence.ingress-") })
}

// whoIsAsking has what isn't a person's leave the session suspended, a person get a page that leads on, and a program
// never HTML.
func whoIsAsking(t *testing.T, s *stack.Stack, p *proxy) {
	suspend(t, s, "work")
	for headers, want := range map[string]int{probe: 200, "User-Agent: Slackbot-LinkExpanding 1.0\n": 200, "User-Agent: Googlebot/2.1\n": 503, "Accept: text/event-stream\nLast-Event-ID: 4\n": 503} {
		if status, _, text := p.ask(http.MethodGet, work, "/count", headers, nil); status != want || !strings.Contains(text, "suspended") {
			t.Errorf("%q gives %d: %s", headers, status, text)
		}
	}
	if got := state(t, s, "work"); got != schemas.Suspended {
		t.Errorf("after them the session is %s", got)
	}
	const person = "Accept: text/html,*/*;q=0.8\nUser-Agent: Mozilla/5.0\nSec-Fetch-Mode: navigate\n"
	until(t, "the person gets there", func() bool {
		status, kind, text := p.ask(http.MethodGet, work, "/digest", person, nil)
		if status == http.StatusServiceUnavailable && strings.HasPrefix(kind, "text/html") && strings.Contains(text, "/.well-known/diapause/wake") {
			return false
		}
		if status != http.StatusOK {
			t.Fatalf("a navigation gives %d: %s", status, text)
		}
		return true
	})
	hurried := ingress(t, s, "--connect-timeout", "2s")
	for host, want := range map[string]int{"8080--none.default.localhost": 404, "8081--work.default.localhost": 502} {
		if status, kind, text := hurried.ask(http.MethodGet, host, "/", json, nil); status != want || kind != "application/problem+json" {
			t.Errorf("%s gives a program %d %s: %s", host, status, kind, text)
		}
		if status, kind, text := hurried.ask(http.MethodGet, host, "/", "Accept: text/html\n", nil); status != want && status != 503 || !strings.HasPrefix(kind, "text/html") {
			t.Errorf("%s gives a person %d %s: %s", host, status, kind, text)
		}
	}
}

// forged sends what isn't for the session, or could be read in two ways.
func forged(t *testing.T, s *stack.Stack, p *proxy) {
	suspend(t, s, "work")
	for what, c := range map[string][2]string{
		"another host":     {"GET /s/default/work/8080/count HTTP/1.1\r\nHost: evil.com\r\nConnection: close\r\n\r\n", "421"},
		"a host before it": {"GET /count HTTP/1.1\r\nHost: " + work + ".evil.com\r\nConnection: close\r\n\r\n", "421"},
		"two lengths":      {"POST /count HTTP/1.1\r\nHost: " + work + "\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "400"},
		"two hosts":        {"GET /count HTTP/1.1\r\nHost: " + work + "\r\nHost: x\r\n\r\n", "400"},
		"another site":     {"POST /count HTTP/1.1\r\nHost: " + work + "\r\nOrigin: http://evil.com\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "403"},
		"much of a header": {"GET /count HTTP/1.1\r\nHost: " + work + "\r\nX: " + strings.Repeat("a", 1<<20) + "\r\n\r\n", "431"},
	} {
		conn := p.dial()
		go func() { _, _ = io.WriteString(conn, c[0]) }() // which may be reset before the end
		line, err := bufio.NewReader(conn).ReadString('\n')
		if !strings.HasPrefix(line, "HTTP/1.1 "+c[1]) {
			t.Errorf("%s gives %q, %v, want %s", what, line, err, c[1])
		}
		conn.Close()
	}
	if got := state(t, s, "work"); got != schemas.Suspended {
		t.Errorf("after them the session is %s", got)
	}
}

// tcp leads a connection to the port, and what only connects nowhere.
func tcp(t *testing.T, s *stack.Stack) {
	p := ingress(t, s, "work", "8080")
	p.pause(true) // so that the end is there when the connection is taken
	p.dial().Close()
	p.pause(false)
	must(t, s, "show", "work")
	if got := state(t, s, "work"); got != schemas.Suspended {
		t.Errorf("after a probe the session is %s", got)
	}
	status, _, _ := p.ask(http.MethodGet, "anything", "/digest", probe, nil) // HTTP is nothing to it
	if status != http.StatusOK {
		t.Errorf("the port answers %d", status)
	}
	if out := must(t, s, "history", "work"); !strings.Contains(out, "connection to port 8080 (tcp by this machine)") {
		t.Errorf("history doesn't name the connection: %s", out)
	}
}

// refused has wrong use be refused.
func refused(t *testing.T, s *stack.Stack) {
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{2, "could use all sessions", []string{"--listen", "0.0.0.0:0"}},
		{2, "could use all sessions", []string{"--listen", ":8443"}},
		{2, "want ADDR:PORT", []string{"--listen", "8443"}},
		{2, "want a port", []string{"work", "http"}},
		{2, "an argument is missing", []string{"work"}},
		{2, "want one of", []string{"--wake", "everything"}},
		{2, "is for NAME PORT", []string{"--proxy-protocol", "accept"}},
		{2, "want accept or send", []string{"--proxy-protocol", "v3", "work", "80"}},
		{1, "no such host", []string{"--listen", "localhost:nothing"}},
	} {
		r := s.Do(append([]string{"ingress"}, c.args...)...)
		if r.Code != c.code || c.code == 2 && !strings.Contains(r.Err, c.says) {
			t.Errorf("ingress %v ends with %d: %s", c.args, r.Code, r.Err)
		}
	}
}

// slowClients has many clients send their headers slowly, which keeps no other from being served.
func slowClients(t *testing.T, p *proxy) {
	clients := 100
	if long() {
		clients = 1000
	}
	for range clients {
		if _, err := io.WriteString(p.dial(), "GET /count HTTP/1.1\r\nHost: "); err != nil {
			t.Fatal(err)
		}
	}
	p.want(http.MethodPost, work, "/digest", "", strings.NewReader("x"), digest(strings.NewReader("x")))
}

// startedAgain has the daemon come back at another address, with a request under way and one that comes after.
func startedAgain(t *testing.T, s *stack.Stack, p *proxy) {
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	var during sync.WaitGroup
	during.Go(func() {
		if status, _, text := p.ask(http.MethodPost, work, "/digest", "", strings.NewReader("x")); status != http.StatusOK || text != digest(strings.NewReader("x")) {
			t.Errorf("while the daemon starts again it gives %d: %s", status, text)
		}
	})
	err := s.Up("--docker", "none")
	during.Wait()
	if err != nil {
		t.Fatal(err)
	}
	p.want(http.MethodPost, work, "/digest", "", strings.NewReader("y"), digest(strings.NewReader("y")))
}

// An open connection is a lease, though nothing is sent; a probe isn't, however often.
func TestUse(t *testing.T) {
	t.Parallel()
	s, _ := stack.Fresh(t)
	if err := s.Up("--docker", "none"); err != nil {
		t.Fatal(err)
	}
	begin(t, s, "work", "--idle", "2s")
	p := ingress(t, s)
	c := p.dial()
	fmt.Fprintf(c, "GET /echo HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", work)
	in := bufio.NewReader(c)
	answer, err := http.ReadResponse(in, nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("an upgrade gives %v, %v", answer, err)
	}
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if got := state(t, s, "work"); got != schemas.Running {
			t.Fatalf("with an open WebSocket it is %s", got)
		}
	}
	if out := must(t, s, "explain", "work"); !strings.Contains(out, "GET /echo to port 8080 (websocket by this machine)") {
		t.Errorf("explain doesn't tell of the WebSocket: %s", out)
	}
	if _, err := io.WriteString(c, "hello\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := in.ReadString('\n'); got != "hello\n" {
		t.Fatalf("%q comes back, %v", got, err)
	}
	c.Close()
	until(t, "it is suspended, though a probe asks", func() bool {
		if status, _, text := p.ask(http.MethodGet, work, "/count", probe, nil); status != http.StatusOK {
			t.Fatalf("a probe gets %d: %s", status, text)
		}
		return state(t, s, "work") == schemas.Suspended
	})
}
