package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/diapause/diapause/schemas"
)

// Daemon is a running `diapause up`.
type Daemon struct {
	*process
	binary, data string
}

// startWait bounds how long the daemon may take to be ready.
const startWait = time.Minute

// Start brings a daemon up with a data directory of its own below dir.
func Start(ctx context.Context, binary, dir string) (*Daemon, error) {
	return StartWith(ctx, binary, dir, nil)
}

// StartWith is Start with further environment, and arguments of `up`.
func StartWith(ctx context.Context, binary, dir string, environment []string, args ...string) (*Daemon, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("sessions need root: run this with sudo")
	}
	d := &Daemon{binary: binary, data: filepath.Join(dir, "data")}
	var err error
	d.process, err = startProcess(binary, environment, append([]string{"up", "--data", d.data, "--listen", "127.0.0.1:0"}, args...)...)
	if err != nil {
		return nil, fmt.Errorf("start the daemon: %w", err)
	}
	if err := d.ready(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start the daemon: %w", err), d.Stop(context.WithoutCancel(ctx)))
	}
	return d, nil
}

// Output is what the daemon has printed.
func (d *Daemon) Output() string { return d.out.String() }

// Stop removes all sessions, ends the daemon and deletes its data.
func (d *Daemon) Stop(ctx context.Context) error {
	var errs []error
	select {
	case <-d.ended:
	default:
		errs = append(errs, d.removeAll(ctx), d.cmd.Process.Signal(syscall.SIGTERM))
	}
	return errors.Join(append(errs, d.wait(), os.RemoveAll(d.data))...)
}

func (d *Daemon) removeAll(ctx context.Context) error {
	var all []schemas.View
	if err := d.ask(ctx, &all, "ls"); err != nil {
		return err
	}
	var errs []error
	for _, v := range all {
		_, err := d.command(ctx, nil, "rm", "--yes", v.Name)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// ask runs a verb with --json and decodes its answer into out.
func (d *Daemon) ask(ctx context.Context, out any, verb string, args ...string) error {
	text, err := d.command(ctx, nil, append([]string{verb, "--json"}, args...)...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(text), out); err != nil {
		return fmt.Errorf("read the answer to %s: %w", verb, err)
	}
	return nil
}

// command runs the client and gives its standard output.
func (d *Daemon) command(ctx context.Context, stdin []byte, args ...string) (string, error) {
	cmd := d.client(ctx, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("diapause %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(append(stderr.Bytes(), stdout.Bytes()...)))
	}
	return stdout.String(), nil
}

func (d *Daemon) client(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, d.binary, args...)
	cmd.Env = append(os.Environ(), "DIAPAUSE_DATA="+d.data, "DIAPAUSE_URL=", "DIAPAUSE_CREDS=")
	cmd.WaitDelay = time.Second
	return cmd
}

// syncBuffer is a buffer that one goroutine writes and others read.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
