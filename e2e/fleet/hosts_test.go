package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/thread/threadtest"
)

var built struct{ dir, program string }

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

func runAll(m *testing.M) int {
	dir, err := stack.Dir()
	if err == nil {
		defer os.RemoveAll(dir)
		built.dir = dir
		built.program, err = stack.Build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "prepare the tests:", err)
		return 1
	}
	return m.Run()
}

// term is the lease of every host here: long enough for a busy machine to renew it.
const term = "5s"

// hosts are an up and the workers beside it.
type hosts struct {
	t     *testing.T
	up    *stack.Stack
	dir   string
	store string
	all   []*host

	cables []*cable
}

func newHosts(t *testing.T, args ...string) *hosts {
	t.Helper()
	return newHostsWith(t, nil, args...)
}

// newHostsWith has the up run with more in its environment.
func newHostsWith(t *testing.T, env []string, args ...string) *hosts {
	t.Helper()
	dir, err := os.MkdirTemp(built.dir, "fleet-")
	if err != nil {
		t.Fatal(err)
	}
	h := &hosts{t: t, dir: dir, store: "dir://" + filepath.Join(dir, "images"), up: stack.New(built.program, filepath.Join(dir, "up"))}
	if err := os.Mkdir(filepath.Join(dir, "images"), 0o700); err != nil {
		t.Fatal(err)
	}
	h.up.Env = append(os.Environ(), env...)
	t.Cleanup(h.close)
	h.startUp(args...)
	return h
}

// startUp starts the up.
func (h *hosts) startUp(args ...string) {
	h.t.Helper()
	if err := h.up.Up(append([]string{"--store", h.store, "--lease", term}, args...)...); err != nil {
		h.t.Fatal(err)
	}
}

// host is one worker.
type host struct {
	hosts *hosts
	data  string
	url   string
	id    schemas.HostID
	args  []string // of the worker, besides those of every host
	cmd   *exec.Cmd
	done  chan struct{} // closed when cmd has ended
	log   output
	space *space // its own network, if it has one
}

func (h *hosts) add(name string) *host {
	h.t.Helper()
	w := &host{hosts: h, data: filepath.Join(h.dir, name), url: h.up.Secure}
	h.all = append(h.all, w)
	return w
}

var ready = regexp.MustCompile(`(?m)^ready: host (\S+), `)

// start runs the worker and waits until it is ready.
func (w *host) start(env ...string) *host {
	w.hosts.t.Helper()
	from := len(w.log.String())
	creds := filepath.Join(w.hosts.up.Data, "creds", "system.nk")
	args := []string{built.program, "worker", "--data", w.data, "--nats", w.url, "--creds", creds, "--store", w.hosts.store, "--lease", term, "-v"}
	args = append(args, w.args...)
	w.cmd = exec.Command(args[0], args[1:]...)
	begin := threadtest.Start
	if w.space != nil {
		w.cmd, begin = w.space.command(args...), w.space.Start
	}
	w.cmd.Env = append(os.Environ(), env...)
	w.cmd.Stdout, w.cmd.Stderr = &w.log, &w.log
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := begin(w.cmd); err != nil {
		w.hosts.t.Fatal(err)
	}
	cmd, done := w.cmd, make(chan struct{})
	w.done = done
	go func() {
		_ = cmd.Wait() // its end is what is waited for
		close(done)
	}()
	eventually(w.hosts.t, "the worker is ready", func() error {
		m := ready.FindStringSubmatch(w.log.String()[from:])
		if m == nil {
			return fmt.Errorf("it said:\n%s", w.log.String()[from:])
		}
		w.id = schemas.HostID(m[1])
		return nil
	})
	return w
}

func (w *host) signal(s syscall.Signal) {
	w.hosts.t.Helper()
	if err := w.cmd.Process.Signal(s); err != nil {
		w.hosts.t.Fatal(err)
	}
}

// end signals the worker and waits for its end.
func (w *host) end(s syscall.Signal) {
	w.hosts.t.Helper()
	w.signal(s)
	select {
	case <-w.done:
	case <-time.After(within):
		w.hosts.t.Fatalf("the worker doesn't end:\n%s", w.log.String())
	}
}

func (w *host) alive() bool {
	if w.done == nil {
		return false
	}
	select {
	case <-w.done:
		return false
	default:
		return true
	}
}

// close removes all sessions, ends every worker and looks for what is left.
func (h *hosts) close() {
	if h.t.Failed() {
		for _, w := range h.all {
			h.t.Logf("worker %s said:\n%s", w.id, w.log.String())
		}
		h.t.Logf("up said:\n%s", h.up.Log())
	}
	for _, w := range h.all {
		if w.id != "" && !w.alive() {
			w.start()
		}
	}
	var sessions []schemas.View
	if err := json.Unmarshal([]byte(h.up.Do("ls", "--json").Out), &sessions); err != nil {
		h.t.Errorf("read the list of sessions: %v", err)
	}
	for _, v := range sessions {
		if r := h.up.Do("rm", "--yes", "--timeout", "30s", v.Name); r.Code != 0 {
			h.t.Errorf("rm %s: %s", v.Name, r.Err)
			for _, w := range h.all {
				w.end(syscall.SIGQUIT)
				h.t.Logf("worker %s said:\n%s", w.id, w.log.String())
			}
		}
	}
	for _, w := range h.all {
		if w.alive() {
			w.end(syscall.SIGTERM)
		}
		left := &stack.Stack{Program: built.program, Data: w.data, Host: string(w.id)}
		if err := left.Leftovers(); err != nil && w.id != "" {
			h.t.Errorf("host %s: %v", w.id, err)
		}
	}
	for _, c := range h.cables { // the workers needed them to clear up
		c.listener.Close()
		c.set(true)
	}
	if err := h.up.Close(); err != nil {
		h.t.Error(err)
	}
}

func (h *hosts) must(args ...string) string {
	h.t.Helper()
	out, err := h.up.Must(args...)
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

// run begins a session on a host, in its network, where the witness is.
func (h *hosts) run(w *host, name string, by *witness, args ...string) {
	h.t.Helper()
	all := append([]string{"run", "--name", name, "--host", string(w.id), "--idle", "never", "--network", "host"}, args...)
	h.must(append(append(all, "--"), by.command()...)...)
	by.goesOn()
}

func (h *hosts) view(name string) schemas.View {
	h.t.Helper()
	v, err := h.up.View(name)
	if err != nil {
		h.t.Fatal(err)
	}
	return v
}

// awaitState waits for a session to be in a state on a host, with one tree if it runs.
func (h *hosts) awaitState(name string, s schemas.State, on *host) schemas.View {
	h.t.Helper()
	var v schemas.View
	eventually(h.t, fmt.Sprintf("session %s is %s on host %s", name, s, on.id), func() error {
		v = h.view(name)
		if v.State != s || v.Host != on.id {
			return fmt.Errorf("it is %s on %s: %s", v.State, v.Host, v.LastTransition.Reason)
		}
		return nil
	})
	return v
}

// awaitTrees waits until a session has so many process trees, on all hosts together.
func (h *hosts) awaitTrees(v schemas.View, n int) {
	h.t.Helper()
	eventually(h.t, fmt.Sprintf("session %s has %d process trees", v.Name, n), func() error {
		if got := h.up.Leaders(v.UID); got != n {
			return fmt.Errorf("%d", got)
		}
		return nil
	})
}

func (h *hosts) audit() {
	h.t.Helper()
	h.must("audit", "--verify")
}

// output takes what a worker says while it is read.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}
