package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Worker is a `diapause worker` beside a daemon: one more host.
type Worker struct {
	*process
	args   []string
	binary string
}

// process is a program that runs beside this one.
type process struct {
	cmd   *exec.Cmd
	out   syncBuffer
	ended chan struct{}
}

// startProcess starts a program in a process group of its own: an interrupt of the run is for the run,
// which then stops it.
func startProcess(binary string, environment []string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(binary, args...), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), environment...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // its output tells more
		close(p.ended)
	}()
	return p, nil
}

// ready waits until it says so.
func (p *process) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	for !strings.Contains(p.out.String(), "ready: host") {
		select {
		case <-p.ended:
			return fmt.Errorf("it ended:\n%s", p.out.String())
		case <-ctx.Done():
			return fmt.Errorf("it isn't ready: %w\n%s", ctx.Err(), p.out.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// host is the name of its host, "" before it is ready.
func (p *process) host() string {
	_, rest, _ := strings.Cut(p.out.String(), "ready: host ")
	name, _, _ := strings.Cut(rest, ",")
	return name
}

// wait returns when it has ended.
func (p *process) wait() error {
	select {
	case <-p.ended:
		return nil
	case <-time.After(startWait):
		return fmt.Errorf("process %d doesn't end:\n%s", p.cmd.Process.Pid, p.out.String())
	}
}

// AddWorker starts a host beside the daemon, with a data directory of its own and the daemon's store.
func (d *Daemon) AddWorker(ctx context.Context, data string, args ...string) (*Worker, error) {
	_, rest, _ := strings.Cut(d.out.String(), "clients with credentials connect to ")
	url, _, _ := strings.Cut(rest, ",")
	return d.AddWorkerOn(ctx, data, url, append([]string{"--creds", filepath.Join(d.data, "creds", "system.nk")}, args...)...)
}

// AddWorkerOn is AddWorker with the NATS server of its own that the daemon uses.
func (d *Daemon) AddWorkerOn(ctx context.Context, data, url string, args ...string) (*Worker, error) {
	w := &Worker{binary: d.binary, args: append([]string{"worker", "--data", data, "--nats", url}, args...)}
	return w, w.Start(ctx)
}

// Start starts it, again if it has ended.
func (w *Worker) Start(ctx context.Context) (err error) {
	if w.process, err = startProcess(w.binary, nil, w.args...); err != nil {
		return fmt.Errorf("start a worker: %w", err)
	}
	if err := w.ready(ctx); err != nil {
		return errors.Join(fmt.Errorf("start a worker: %w", err), w.Kill())
	}
	return nil
}

// Host is the name of its host.
func (w *Worker) Host() string { return w.host() }

// Kill ends it with SIGKILL.
func (w *Worker) Kill() error { return w.end(syscall.SIGKILL) }

// Stop has it end by itself.
func (w *Worker) Stop() error { return w.end(syscall.SIGTERM) }

func (w *Worker) end(s syscall.Signal) error {
	if err := w.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return w.wait()
}
