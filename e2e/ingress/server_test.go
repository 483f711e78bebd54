package ingress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/thread/threadtest"
)

// limit bounds all that is waited for.
const limit = 3 * time.Minute

// asServer is the variable that has this program be the server in a session.
const asServer = "DIAPAUSE_TEST_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		fmt.Fprintln(os.Stderr, serve())
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// serve is the server. What it counts shows that its memory is the same after a resume.
func serve() error {
	if os.Getenv(asServer) == "grpc" {
		return serveGRPC()
	}
	asked := 0
	mux := http.NewServeMux()
	mux.HandleFunc("/count", func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err != nil || r.Method == http.MethodPost && string(body) != "a question" {
			http.Error(w, fmt.Sprintf("the body is %q, %v", body, err), http.StatusBadRequest)
			return
		}
		asked++
		fmt.Fprint(w, asked)
	})
	mux.HandleFunc("/digest", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, digest(r.Body)) })
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for r.Context().Err() == nil {
			asked++
			fmt.Fprintf(w, "id: %d\ndata: tick\n\n", asked)
			if http.NewResponseController(w).Flush() != nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(conn, rw)
	})
	return http.ListenAndServe("127.0.0.1:8080", mux)
}

// large is 50 MB that no compression makes small.
func large() io.Reader { return io.LimitReader(rand.NewChaCha8([32]byte{1}), 50e6) }

func digest(r io.Reader) string {
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return err.Error()
	}
	return hex.EncodeToString(h.Sum(nil))
}

// begin starts the server in a session.
func begin(t *testing.T, s *stack.Stack, name string, flags ...string) {
	t.Helper()
	beginAs(t, s, "1", name, flags...)
}

// beginAs starts a server of that kind.
func beginAs(t *testing.T, s *stack.Stack, kind, name string, flags ...string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"run", "--name", name, "--network", "private", "--env", asServer + "=" + kind}, flags...)
	must(t, s, append(args, "--", self)...)
}

func must(t *testing.T, s *stack.Stack, args ...string) string {
	t.Helper()
	out, err := s.Must(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited too long until %s", what)
		}
	}
}

func state(t *testing.T, s *stack.Stack, name string) schemas.State {
	t.Helper()
	v, err := s.View(name)
	if err != nil {
		t.Fatal(err)
	}
	return v.State
}

// proxy is a `diapause ingress` that runs.
type proxy struct {
	t       *testing.T
	address string
	client  *http.Client
	ended   chan struct{}
	cmd     *exec.Cmd

	mu   sync.Mutex
	said bytes.Buffer
}

func (p *proxy) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.Write(b)
}

func (p *proxy) errors() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

// address is where an ingress listens, as its first line says.
var address = regexp.MustCompile(`:(\d+)/?\s*$`)

// ingress starts one at a free port.
func ingress(t *testing.T, s *stack.Stack, args ...string) *proxy {
	t.Helper()
	p := &proxy{t: t, ended: make(chan struct{})}
	p.cmd = exec.Command(s.Program, append([]string{"--data", s.Data, "ingress", "--listen", "127.0.0.1:0", "-v"}, args...)...)
	p.cmd.Stderr = p
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = threadtest.Start(p.cmd)
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if port := address.FindStringSubmatch(line); port != nil {
		p.address = "127.0.0.1:" + port[1]
	}
	go func() {
		_ = p.cmd.Wait() // its status isn't looked at
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it has ended, as a rule
		<-p.ended
		if t.Failed() {
			t.Logf("ingress said: %s", p.errors())
		}
	})
	if err != nil || p.address == "" {
		t.Fatalf("ingress says %q, %v: %s", line, err, p.errors())
	}
	return clientOf(t, p)
}

// clientOf gives a proxy its client.
func clientOf(t *testing.T, p *proxy) *proxy {
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", p.address)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	p.client = &http.Client{Transport: tr, Timeout: limit}
	return p
}

// ask sends a request to the host that begins with host, and gives the status, the type and the text.
func (p *proxy) ask(method, host, path, headers string, body io.Reader) (status int, kind, text string) {
	p.t.Helper()
	r, err := http.NewRequest(method, "http://"+host+path, body)
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(headers) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		r.Header.Set(key, value)
	}
	answer, err := p.client.Do(r)
	if err != nil {
		p.t.Fatalf("%s %s%s: %v", method, host, path, err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		p.t.Fatalf("%s %s%s: %v", method, host, path, err)
	}
	return answer.StatusCode, answer.Header.Get("Content-Type"), string(b)
}

// want asks and wants an answer of the server.
func (p *proxy) want(method, host, path, headers string, body io.Reader, want string) {
	p.t.Helper()
	if status, _, got := p.ask(method, host, path, headers, body); status != http.StatusOK || got != want {
		p.t.Fatalf("%s %s%s gives %d %q, want %q", method, host, path, status, got, want)
	}
}

func (p *proxy) dial() *net.TCPConn {
	p.t.Helper()
	c, err := net.Dial("tcp", p.address)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		p.t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

// pause stops it, or has it go on.
func (p *proxy) pause(stopped bool) {
	p.t.Helper()
	sig := syscall.SIGCONT
	if stopped {
		sig = syscall.SIGSTOP
	}
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}
