package dockertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"
)

// Engine is one Docker engine.
type Engine struct {
	URL    string // of its socket
	Dir    string // all that it has
	Client *client.Client

	kind Kind
	args []string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	log  bytes.Buffer
}

// startWait bounds the wait for an engine to begin and to end.
const startWait = 2 * time.Minute

// New gives a test an engine of its own, with more arguments for dockerd.
func New(t testing.TB, args ...string) *Engine {
	t.Helper()
	return NewOf(t, Default(), args...)
}

// NewOf does the same with an engine of a kind.
func NewOf(t testing.TB, kind Kind, args ...string) *Engine {
	t.Helper()
	e, err := StartOf(kind, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Remove(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// Start starts an engine.
func Start(args ...string) (*Engine, error) { return StartOf(Default(), args...) }

// StartOf starts an engine of a kind.
func StartOf(kind Kind, args ...string) (*Engine, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("these tests run a Docker engine: they need root")
	}
	if err := kind.there(); err != nil {
		return nil, err
	}
	dir, err := place()
	if err != nil {
		return nil, fmt.Errorf("make a directory for the engine: %w", err)
	}
	e := &Engine{Dir: dir, URL: "unix://" + filepath.Join(dir, "sock"), kind: kind}
	e.args = slices.Concat([]string{
		"--data-root", filepath.Join(dir, "data"), "--exec-root", filepath.Join(dir, "exec"), "--pidfile", filepath.Join(dir, "pid"),
		"--host", e.URL, "--bridge", "none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false", "--shutdown-timeout", "1", "--config-file", filepath.Join(dir, "none"),
	}, kind.args(), args)
	if err := os.WriteFile(filepath.Join(dir, "none"), []byte("{}"), 0o600); err != nil {
		return nil, err
	}
	if err := e.Run(); err != nil {
		return nil, errors.Join(err, e.Remove())
	}
	return e, nil
}

// place makes a directory that overlay takes as an upper layer.
func place() (string, error) {
	at := "/var/tmp"
	var st unix.Statfs_t
	if unix.Statfs(at, &st) == nil && st.Type == unix.OVERLAYFS_SUPER_MAGIC {
		at = "/dev/shm"
	}
	return os.MkdirTemp(at, "diapause-engine-")
}

// Run starts the engine's process, and waits until it answers.
func (e *Engine) Run() error {
	e.cmd = exec.Command(e.kind.program(), e.args...)
	e.cmd.Stdout, e.cmd.Stderr = &e.log, &e.log
	e.cmd.Env = append(os.Environ(), "TMPDIR="+e.Dir, "PATH="+e.kind.path())
	// It ends with the tests, however these end.
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	e.done = make(chan struct{})
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // whose end the signal is for
		err := e.cmd.Start()
		started <- err
		if err == nil {
			_ = e.cmd.Wait() // how it ended is in its log
		}
		close(e.done)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start dockerd: %w", err)
	}
	var err error
	if e.Client, err = client.New(client.WithHost(e.URL)); err != nil {
		return err
	}
	return e.answers()
}

func (e *Engine) answers() error {
	ctx, cancel := context.WithTimeout(context.Background(), startWait)
	defer cancel()
	for {
		_, err := e.Client.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
		if err == nil {
			return nil
		}
		select {
		case <-e.done:
			return fmt.Errorf("dockerd ended at once:\n%s", e.log.Bytes())
		case <-ctx.Done():
			return fmt.Errorf("dockerd doesn't answer: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Stop ends the engine's process, and its containers with it.
func (e *Engine) Stop() error {
	if e.cmd == nil || e.cmd.Process == nil {
		return nil
	}
	if err := e.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop dockerd: %w", err)
	}
	select {
	case <-e.done:
		return nil
	case <-time.After(startWait):
		_ = e.cmd.Process.Kill() // it is told to
		return fmt.Errorf("dockerd didn't end:\n%s", e.log.Bytes())
	}
}

// Kill ends the engine's process as a crash does.
func (e *Engine) Kill() error {
	if err := e.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill dockerd: %w", err)
	}
	<-e.done
	// The next one would take a containerd that is on its way out for one that runs.
	pid, err := os.ReadFile(filepath.Join(e.Dir, "exec", "containerd", "containerd.pid"))
	for end := time.Now().Add(startWait); err == nil && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		_, err = os.Stat("/proc/" + strings.TrimSpace(string(pid)))
	}
	if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("wait for the end of the containerd of dockerd: %w", err)
	}
	return nil
}

// Remove stops the engine and removes all that it had.
func (e *Engine) Remove() error {
	err := e.Stop()
	if e.Client != nil {
		e.Client.Close()
	}
	mounts, readErr := os.ReadFile("/proc/self/mountinfo")
	for line := range bytes.Lines(mounts) {
		fields := bytes.Fields(line)
		if len(fields) > 4 && bytes.HasPrefix(fields[4], []byte(e.Dir+"/")) {
			_ = unix.Unmount(string(fields[4]), unix.MNT_DETACH) // what stays, the removal reports
		}
	}
	return errors.Join(err, readErr, os.RemoveAll(e.Dir))
}
