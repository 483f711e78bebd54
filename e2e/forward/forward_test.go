package forward

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
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
const limit = 2 * time.Minute

// forwarder is a `diapause forward` that runs.
type forwarder struct {
	t       *testing.T
	cmd     *exec.Cmd
	address []string // of each port
	ended   chan struct{}

	mu   sync.Mutex
	said bytes.Buffer
}

func (f *forwarder) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.said.Write(p)
}

func (f *forwarder) errors() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.said.String()
}

// forward starts one, with a free port here for each of the session.
func forward(t *testing.T, s *stack.Stack, name string, ports ...string) *forwarder {
	t.Helper()
	f := &forwarder{t: t, ended: make(chan struct{})}
	args := []string{"--data", s.Data, "forward", name}
	for _, p := range ports {
		args = append(args, "0:"+p)
	}
	f.cmd = exec.Command(s.Program, args...)
	f.cmd.Stderr = f
	f.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := f.cmd.StdoutPipe()
	if err == nil {
		err = threadtest.Start(f.cmd)
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for range ports {
		if !lines.Scan() {
			t.Fatalf("forward ends: %s", f.errors())
		}
		f.address = append(f.address, strings.Fields(lines.Text())[1])
	}
	go func() {
		_ = f.cmd.Wait() // its status is looked at by code
		close(f.ended)
	}()
	t.Cleanup(func() {
		_ = f.cmd.Process.Kill() // it has ended, as a rule
		<-f.ended
	})
	return f
}

// code waits for the end and gives the exit status.
func (f *forwarder) code() int {
	f.t.Helper()
	select {
	case <-f.ended:
	case <-time.After(limit):
		f.t.Fatal("forward doesn't end")
	}
	return f.cmd.ProcessState.ExitCode()
}

// get asks the server over a connection of its own.
func (f *forwarder) get(path string) (string, error) { return f.ask(http.MethodGet, path, nil) }

func (f *forwarder) ask(method, path string, body io.Reader) (string, error) {
	f.t.Helper()
	c := http.Client{Timeout: limit, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := http.NewRequest(method, "http://"+f.address[0]+path, body)
	if err != nil {
		f.t.Fatal(err)
	}
	answer, err := c.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	if path == "/big" {
		return digest(answer.Body), nil
	}
	b, err := io.ReadAll(answer.Body)
	return string(b), err
}

func (f *forwarder) want(path, want string) {
	f.t.Helper()
	if got, err := f.get(path); err != nil || got != want {
		f.t.Fatalf("%s gives %q, %v, want %q; forward said: %s", path, got, err, want, f.errors())
	}
}

func (f *forwarder) dial(i int) *net.TCPConn {
	f.t.Helper()
	c, err := net.Dial("tcp", f.address[i])
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		f.t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

// open begins an answer that doesn't end.
func (f *forwarder) open() *net.TCPConn {
	f.t.Helper()
	c := f.dial(0)
	if _, err := io.WriteString(c, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		f.t.Fatal(err)
	}
	for got := ""; !strings.Contains(got, "first"); {
		b := make([]byte, 1000)
		n, err := c.Read(b)
		if err != nil {
			f.t.Fatalf("the answer doesn't begin: %v: %s", err, f.errors())
		}
		got += string(b[:n])
	}
	return c
}

// reset wants a connection to end with an error, and not as if all had arrived.
func (f *forwarder) reset(c net.Conn) {
	f.t.Helper()
	if b, err := io.ReadAll(c); !errors.Is(err, syscall.ECONNRESET) {
		f.t.Errorf("the connection ends with %q, %v, want a reset", b, err)
	}
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

func TestForward(t *testing.T) {
	t.Parallel()
	s, _ := stack.Fresh(t)
	if err := s.Up("--docker", "none"); err != nil {
		t.Fatal(err)
	}
	t.Run("networks", func(t *testing.T) { networks(t, s) })
	forwards(t, s, "go through NATS: it takes no direct ones")
}

// What holds of connections through NATS holds of those that go to the host itself.
func TestForwardDirect(t *testing.T) {
	t.Parallel()
	s, _ := stack.Fresh(t)
	if err := s.Up("--docker", "none", "--advertise", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	forwards(t, s, "go directly to host ", "--advertise", "127.0.0.1:0")
}

// forwards uses one forwarder for a session; way is what it says of the way, and flags are those of up.
func forwards(t *testing.T, s *stack.Stack, way string, flags ...string) {
	begin(t, s, "work", "--network", "private", "--idle", "2s")
	f := forward(t, s, "work", portHTTP, portUpper, portNone)
	t.Run("carries", func(t *testing.T) { carries(t, f) })
	until(t, "forward says which way it is", func() bool { return strings.Contains(f.errors(), way) })
	t.Run("keeps awake and wakes", func(t *testing.T) { keepsAwake(t, s, f) })
	t.Run("suspended while open", func(t *testing.T) { suspendedWhileOpen(t, s, f) })
	t.Run("the shim is killed", func(t *testing.T) { shimKilled(t, s) })
	t.Run("the daemon is started again", func(t *testing.T) { startedAgain(t, s, f, flags) })
	t.Run("ends", func(t *testing.T) { ends(t, s, f) })
}

// networks reaches a server in each, after a resume too.
func networks(t *testing.T, s *stack.Stack) {
	for _, network := range []string{"private", "host", "none"} {
		name := "in-" + network
		begin(t, s, name, "--network", network)
		f := forward(t, s, name, portHTTP)
		f.want("/count", "1")
		must(t, s, "suspend", name)
		f.want("/count", "2")
		must(t, s, "rm", "--yes", name)
	}
}

// carries has much pass both ways, a direction end before the other, and a port refuse.
func carries(t *testing.T, f *forwarder) {
	want := digest(large())
	f.want("/big", want)
	if got, err := f.ask(http.MethodPost, "/digest", large()); err != nil || got != want {
		t.Errorf("what was sent has digest %s, %v, want %s", got, err, want)
	}
	c := f.dial(1)
	if _, err := io.WriteString(c, "question"); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(c); err != nil || string(b) != "QUESTION" {
		t.Errorf("the answer after the end of the question is %q, %v", b, err)
	}
	f.reset(f.dial(2))
	until(t, "forward says why", func() bool {
		return strings.Contains(f.errors(), "nothing listens at port "+portNone+" of session work\n")
	})
}

// keepsAwake has an open connection keep the session from being suspended, and the next one after
// that resume it.
func keepsAwake(t *testing.T, s *stack.Stack, f *forwarder) {
	c := f.open()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if got := state(t, s, "work"); got != schemas.Running {
			t.Fatalf("with an open connection it is %s", got)
		}
	}
	if out := must(t, s, "explain", "work"); !strings.Contains(out, "a forwarded connection is open") {
		t.Errorf("explain doesn't tell of the connection: %s", out)
	}
	c.Close()
	until(t, "it is suspended", func() bool { return state(t, s, "work") == schemas.Suspended })
	f.want("/count", "1")
}

func suspendedWhileOpen(t *testing.T, s *stack.Stack, f *forwarder) {
	c := f.open()
	must(t, s, "suspend", "work")
	f.reset(c)
	f.want("/count", "2")
}

// shimKilled has the processes of the session die. The connection doesn't look as if it had ended
// well, and the next one fails or finds what became of the session.
func shimKilled(t *testing.T, s *stack.Stack) {
	begin(t, s, "lost", "--network", "private", "--idle", "never")
	f := forward(t, s, "lost", portHTTP)
	c := f.open()
	if err := syscall.Kill(shimOf(t, s, "lost"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	f.reset(c)
	until(t, "it doesn't run", func() bool { return state(t, s, "lost") != schemas.Running })
	if out, err := f.get("/count"); err == nil {
		t.Errorf("a session that is lost answers %q", out)
	}
	until(t, "forward says why", func() bool { return strings.Contains(f.errors(), "to port "+portHTTP+": ") })
	must(t, s, "rm", "--yes", "lost")
	_, _ = f.get("/count") // which finds that it is gone
	if got := f.code(); got != 3 {
		t.Errorf("forward of a removed session ends with %d: %s", got, f.errors())
	}
}

// shimOf gives the shim of a session, by its state file.
func shimOf(t *testing.T, s *stack.Stack, name string) int {
	t.Helper()
	v, err := s.View(name)
	if err != nil {
		t.Fatal(err)
	}
	var state struct {
		Shim int `json:"shim"`
	}
	b, err := os.ReadFile(filepath.Join(s.Data, "run", string(v.UID)+".json"))
	if err == nil {
		err = json.Unmarshal(b, &state)
	}
	if err != nil || state.Shim == 0 {
		t.Fatalf("the state of session %s: %s, %v", name, b, err)
	}
	return state.Shim
}

// startedAgain has the server come back at another address.
func startedAgain(t *testing.T, s *stack.Stack, f *forwarder, flags []string) {
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.Up(append([]string{"--docker", "none"}, flags...)...); err != nil {
		t.Fatal(err)
	}
	f.want("/count", "3")
}

// ends interrupts it, with a connection open, and has it refuse wrong use.
func ends(t *testing.T, s *stack.Stack, f *forwarder) {
	c := f.open()
	if err := f.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	f.reset(c)
	if got := f.code(); got != 0 {
		t.Errorf("an interrupt ends it with %d: %s", got, f.errors())
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{3, "no such session", []string{"nothing", "80"}},
		{2, "want PORT or LOCAL:PORT", []string{"work", "http"}},
		{2, "want PORT or LOCAL:PORT", []string{"work", "80:0"}},
		{1, "address already in use", []string{"work", "0:80", port + ":80"}},
	} {
		r := s.Do(append([]string{"forward"}, c.args...)...)
		if r.Code != c.code || !strings.Contains(r.Err, c.says) {
			t.Errorf("forward %v ends with %d: %s", c.args, r.Code, r.Err)
		}
	}
}
