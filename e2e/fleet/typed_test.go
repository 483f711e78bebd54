package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/thread/threadtest"
)

// What is typed into an attached terminal while a suspend is under way undoes it, and
// arrives, in order, once.
func TestTypedDuringASuspendThatIsUndone(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	a := h.add("a").start("DIAPAUSE_FAILPOINTS=worker.capture.taken=hang")
	p := h.typist(a, "s")
	p.types(300)
	p.arrives()
	suspend := h.begin("suspend", "s")
	p.awaitFrozen()
	p.types(700)
	if r := <-suspend; r.code != 4 || !strings.Contains(r.err, "activity came") {
		t.Errorf("suspend, undone: exit %d, %s", r.code, r.err)
	}
	p.types(10)
	p.arrives()
	p.detaches()
	v := h.awaitState("s", schemas.Running, a)
	if v.Generation != 1 {
		t.Errorf("generation %d: it was undone, not resumed", v.Generation)
	}
	h.audit()
}

// What is typed when a suspend is past undoing waits with who typed it: the session is
// woken for it, and it arrives, in order, once.
func TestTypedWhenASuspendIsPastUndoing(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	a := h.add("a").start("DIAPAUSE_FAILPOINTS=worker.reap.heard=stop")
	p := h.typist(a, "s")
	p.types(300)
	p.arrives()
	suspend := h.begin("suspend", "s")
	a.awaitStopped()
	p.types(700)
	a.signal(syscall.SIGCONT)
	<-suspend // what it says depends on who was first
	p.arrives()
	p.types(10)
	p.arrives()
	p.detaches()
	v := h.view("s")
	if v.Generation != 2 || v.Boot != "resume" {
		t.Errorf("generation %d, boot %s: it was suspended and resumed", v.Generation, v.Boot)
	}
	h.audit()
}

// The same when the worker that suspends, and that who types is connected through, is
// killed: the next one goes on with what it finds, and the session is woken for it.
func TestTypedWhenTheWorkerIsKilled(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	a := h.add("a").start("DIAPAUSE_FAILPOINTS=worker.capture.taken=stop")
	p := h.typist(a, "s")
	p.types(300)
	p.arrives()
	suspend := h.begin("suspend", "s")
	a.awaitStopped()
	p.types(700)
	a.end(syscall.SIGKILL)
	a.start()
	<-suspend // likewise
	p.arrives()
	p.types(10)
	p.arrives()
	p.detaches()
	h.audit()
}

// typist is attached to the terminal of a session that repeats each line.
type typist struct {
	h     *hosts
	name  string
	cmd   *exec.Cmd
	keys  io.WriteCloser
	said  output
	done  chan error
	pid   int // of the session's command
	typed int
}

// echoes shows every line that it reads, itself: the terminal shows none.
const echoes = `stty -echo; echo ready; while IFS= read -r line; do echo "read $line"; done`

func (h *hosts) typist(on *host, name string) *typist {
	h.t.Helper()
	h.must("run", "--name", name, "--host", string(on.id), "--tty", "--idle", "never", "--", "bash", "-c", echoes)
	p := &typist{h: h, name: name, done: make(chan error, 1)}
	p.cmd = exec.Command(built.program, "--data", filepath.Join(h.dir, "up"), "attach", name)
	p.cmd.Stdout, p.cmd.Stderr = &p.said, &p.said
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var err error
	if p.keys, err = p.cmd.StdinPipe(); err == nil {
		err = threadtest.Start(p.cmd)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	go func() { p.done <- p.cmd.Wait() }()
	h.t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		if h.t.Failed() {
			h.t.Logf("attach said:\n%s", p.said.String())
		}
	})
	eventually(h.t, "it is attached", func() error {
		if !strings.Contains(p.said.String(), "ready") {
			return fmt.Errorf("attach says %q", p.said.String())
		}
		if p.pid = h.view(name).PID; p.pid == 0 {
			return errors.New("its process isn't known")
		}
		return nil
	})
	return p
}

// types n lines, in portions as a person or a paste has them.
func (p *typist) types(n int) {
	p.h.t.Helper()
	for n > 0 {
		var b bytes.Buffer
		for range min(n, 7) {
			p.typed++
			n--
			fmt.Fprintln(&b, p.typed)
		}
		if _, err := p.keys.Write(b.Bytes()); err != nil {
			p.h.t.Fatalf("type: %v; attach says %q", err, p.said.String())
		}
	}
}

// arrives waits until the session has read all that was typed, and checks the order.
func (p *typist) arrives() {
	p.h.t.Helper()
	last := "read " + strconv.Itoa(p.typed)
	var out string
	eventually(p.h.t, "what was typed arrives", func() error {
		out = p.h.up.Do("logs", p.name).Out
		if !strings.Contains(out, last+"\r\n") {
			return fmt.Errorf("the session has read up to %q", out[max(0, len(out)-30):])
		}
		return nil
	})
	n := 0
	for _, line := range strings.Split(out, "\r\n") {
		if i, ok := strings.CutPrefix(line, "read "); ok {
			if n++; i != strconv.Itoa(n) {
				p.h.t.Fatalf("%q was read as number %d", i, n)
			}
		}
	}
	if n != p.typed {
		p.h.t.Fatalf("%d lines were typed, %d read", p.typed, n)
	}
}

// detaches ends attach by its key, and checks what it showed.
func (p *typist) detaches() {
	p.h.t.Helper()
	if _, err := p.keys.Write([]byte{0x1d}); err != nil {
		p.h.t.Fatal(err)
	}
	select {
	case err := <-p.done:
		if err != nil || !strings.Contains(p.said.String(), "detached") {
			p.h.t.Errorf("attach: %v, it said %q", err, p.said.String())
		}
	case <-time.After(within):
		p.h.t.Fatalf("attach doesn't end; it said %q", p.said.String())
	}
}

// awaitFrozen waits until the session's processes are frozen: what was typed a moment
// before the decision to suspend it has been told of, and undoes nothing.
func (p *typist) awaitFrozen() {
	p.h.t.Helper()
	eventually(p.h.t, "session "+p.name+" is frozen", func() error {
		groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", p.pid))
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(groups)) {
			_, line, _ = strings.Cut(strings.TrimSpace(line), ":")
			controllers, path, _ := strings.Cut(line, ":")
			file, frozen := "/sys/fs/cgroup"+path+"/cgroup.events", "frozen 1"
			if controllers == "freezer" {
				file, frozen = "/sys/fs/cgroup/freezer"+path+"/freezer.state", "FROZEN"
			}
			if b, err := os.ReadFile(file); err == nil && strings.Contains(string(b), frozen) {
				return nil
			}
		}
		return errors.New("it is not")
	})
}

// awaitStopped waits until the worker has stopped itself.
func (w *host) awaitStopped() {
	w.hosts.t.Helper()
	eventually(w.hosts.t, "the worker has stopped", func() error { return stopped(w.cmd.Process.Pid) })
}

// stopped is nil of a process that stands still.
func stopped(pid int) error {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	if !strings.HasPrefix(rest, "T") {
		return fmt.Errorf("it is in state %.1s", rest)
	}
	return nil
}

// came is what a verb came to.
type came struct {
	code     int
	out, err string
}

// begin runs a verb beside the test.
func (h *hosts) begin(args ...string) <-chan came {
	done := make(chan came, 1)
	go func() {
		r := h.up.Do(args...)
		done <- came{r.Code, r.Out, r.Err}
	}()
	return done
}
