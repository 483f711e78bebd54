package stack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/thread/threadtest"
)

// The bounds of what a test waits for, on a slow and busy machine.
const (
	readyWait = 60 * time.Second
	verbWait  = 2 * time.Minute
)

// Stack is one data directory with the daemon that serves it. Its methods are
// for one goroutine, but for Do and View.
type Stack struct {
	Program string
	Data    string
	Dir     string   // working directory of the program; the test's own if empty
	Env     []string // of the program; the test's own if nil
	URL     string   // of the embedded server, since the last Up
	Secure  string   // of the same, for clients with credentials
	Host    string   // since the first Up

	args []string // of the last Up
	proc *exec.Cmd
	done chan struct{} // closed when proc has ended
	err  error         // of proc; valid when done is closed
	log  lockedBuffer
}

// New gives a stack that isn't up yet.
func New(program, data string) *Stack { return &Stack{Program: program, Data: data} }

var (
	ready  = regexp.MustCompile(`(?m)^ready: host (\S+), (\S+), `)
	secure = regexp.MustCompile(`(?m)^clients with credentials connect to (\S+), by TLS$`)
)

// Up starts the daemon on a free port and waits until it is ready. An error
// carries what the daemon said.
func (s *Stack) Up(args ...string) error {
	if s.Alive() {
		return errors.New("the daemon is up already")
	}
	s.args = args
	from := s.log.Len()
	cmd := exec.Command(s.Program, append([]string{"up", "--data", s.Data, "--listen", "127.0.0.1:0", "-v"}, args...)...)
	cmd.Env, cmd.Dir = s.environ(), s.Dir
	cmd.Stdout, cmd.Stderr = &s.log, &s.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := threadtest.Start(cmd); err != nil {
		return fmt.Errorf("start the daemon: %w", err)
	}
	s.proc, s.done = cmd, make(chan struct{})
	go func() {
		s.err = cmd.Wait()
		close(s.done)
	}()
	return s.awaitReady(from)
}

// environ is what the daemon has as its environment: all of them would have the same port for HTTP else.
func (s *Stack) environ() []string {
	env := s.Env
	if env == nil {
		env = os.Environ()
	}
	return append(slices.Clip(env), "DIAPAUSE_HTTP=off")
}

func (s *Stack) awaitReady(from int) error {
	for deadline := time.Now().Add(readyWait); ; {
		if m := ready.FindStringSubmatch(s.log.String()[from:]); m != nil {
			s.Host, s.URL, s.Secure = m[1], m[2], m[2]
			if m := secure.FindStringSubmatch(s.log.String()[from:]); m != nil {
				s.Secure = m[1]
			}
			return nil
		}
		select {
		case <-s.done:
			return fmt.Errorf("the daemon ended before it was ready (%v):\n%s", s.err, s.log.String()[from:])
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the daemon isn't ready after %s:\n%s", readyWait, s.log.String()[from:])
		}
	}
}

// Alive reports whether the daemon runs.
func (s *Stack) Alive() bool {
	if s.done == nil {
		return false
	}
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

// Resident is how much memory the daemon has, in bytes.
func (s *Stack) Resident() (int, error) {
	if !s.Alive() {
		return 0, fmt.Errorf("the daemon isn't up: %v", s.err)
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.proc.Process.Pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(data))
	if len(fields) < 2 {
		return 0, fmt.Errorf("its memory is %q", data)
	}
	pages, err := strconv.Atoi(fields[1])
	return pages * os.Getpagesize(), err
}

// Kill ends the daemon with SIGKILL and waits for it.
func (s *Stack) Kill() error {
	if !s.Alive() {
		return fmt.Errorf("the daemon isn't up: %v", s.err)
	}
	if err := s.proc.Process.Kill(); err != nil {
		return fmt.Errorf("kill the daemon: %w", err)
	}
	<-s.done
	return nil
}

// Wait waits until the daemon, which was asked to, has ended; an error says
// that it didn't end well.
func (s *Stack) Wait() error {
	select {
	case <-s.done:
		return s.err
	case <-time.After(readyWait):
		return errors.New("the daemon doesn't end")
	}
}

// Log is all that the daemon has printed.
func (s *Stack) Log() string { return s.log.String() }

// Result is what a verb came to.
type Result struct {
	Out, Err string
	Code     int
}

// Do runs a client verb on the data directory.
func (s *Stack) Do(args ...string) Result {
	ctx, cancel := context.WithTimeout(context.Background(), verbWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.Program, append([]string{"--data", s.Data}, args...)...)
	var out, errs bytes.Buffer
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = s.Env, s.Dir, &out, &errs
	err := cmd.Run()
	r := Result{Out: out.String(), Err: errs.String()}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		r.Code = exit.ExitCode()
	case err != nil:
		r.Code, r.Err = -1, r.Err+err.Error()
	}
	return r
}

// End ends a session whose command waits for a file, by an exec of touch. How that ends
// isn't looked at: it may be killed with the session before it has exited.
func (s *Stack) End(name, file string) { s.Do("exec", name, "--", "touch", file) }

// Refused is the error that a verb with --json printed; nil if it printed none.
func (r Result) Refused() *schemas.APIError {
	var e schemas.APIError
	if r.Code == 0 || json.Unmarshal([]byte(r.Out), &e) != nil || e.Code == "" {
		return nil
	}
	return &e
}

// Why is the reason of the error that a verb with --json printed; empty if it has none.
func (r Result) Why() schemas.Reason {
	if e := r.Refused(); e != nil {
		return e.Reason
	}
	return ""
}

// Must runs a verb that has to succeed.
func (s *Stack) Must(args ...string) (string, error) {
	r := s.Do(args...)
	if r.Code != 0 {
		return r.Out, fmt.Errorf("diapause %s: exit status %d: %s", strings.Join(args, " "), r.Code, r.Err)
	}
	return r.Out, nil
}

// View is what show says of a session.
func (s *Stack) View(name string) (v schemas.View, err error) {
	out, err := s.Must("show", "--json", name)
	if err != nil {
		return v, err
	}
	return v, json.Unmarshal([]byte(out), &v)
}

// Close ends all that the stack had: its sessions are removed, the daemon is
// stopped, and what is left on the machine is an error. A daemon that isn't up
// is started once more for it.
func (s *Stack) Close() error {
	if s.Host == "" {
		return nil // it was never up
	}
	err := s.clean()
	if err != nil {
		s.Destroy()
		return err
	}
	return s.Leftovers()
}

func (s *Stack) clean() error {
	if !s.Alive() {
		if err := s.Up(s.args...); err != nil {
			return fmt.Errorf("start the daemon to clean up: %w", err)
		}
	}
	var all []schemas.View
	out, err := s.Must("ls", "--all", "--json")
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		return fmt.Errorf("read the list of sessions: %w", err)
	}
	for _, v := range all {
		if _, err := s.Must("rm", "--yes", v.Name); err != nil {
			return err
		}
	}
	if r := s.Do("template", "ls", "-q"); r.Code == 0 { // older programs have none
		for _, name := range strings.Fields(r.Out) {
			if _, err := s.Must("template", "rm", name); err != nil {
				return err
			}
		}
	}
	if _, err := s.Must("down"); err != nil {
		return err
	}
	if err := s.Wait(); err != nil {
		return fmt.Errorf("the daemon didn't end well: %w", err)
	}
	return nil
}

// Destroy ends what a failed test has left, without asking the daemon.
func (s *Stack) Destroy() {
	if s.Alive() {
		_ = s.Kill()
	}
	for _, pid := range s.PIDs() {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone by itself
	}
	for _, g := range s.groups() {
		thaw(g)
	}
}

// lockedBuffer takes output while it is read.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lockedBuffer) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Len()
}

// readFile is os.ReadFile of what may be gone, then empty.
func readFile(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(b)
}
