package rpc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// The notifications that callers act on.
const (
	PostDump        = "post-dump"        // all is dumped, link remaps still exist
	SetupNamespaces = "setup-namespaces" // the namespaces exist, nothing is in them
	PostRestore     = "post-restore"     // all is restored, nothing has run
	PreResume       = "pre-resume"       // each process is traced, at its next instruction; a refusal doesn't matter
)

// ErrKilled says that criu was ended by a signal.
var ErrKilled = errors.New("criu was killed")

// killedOr gives ErrKilled, with err, if a process's end was a signal, and err if not.
func killedOr(err, end error) error {
	var exit *exec.ExitError
	if !errors.As(end, &exit) {
		return err
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return errors.Join(err, fmt.Errorf("%w by signal %d", ErrKilled, status.Signal()))
	}
	return err
}

// Notice is one notification. PID is the root of the tree in SetupNamespaces
// and PostRestore.
type Notice struct {
	Step string
	PID  int
}

// Failure is what criu said when it failed.
type Failure struct {
	Errno  unix.Errno
	Text   string // criu's own first error line, if it sent one
	Caller error  // the callback's error that made it give up
}

func (f *Failure) Error() string {
	switch {
	case f.Caller != nil:
		return f.Caller.Error()
	case f.Text != "":
		return f.Text
	case f.Errno != 0:
		return "criu: " + f.Errno.Error()
	}
	return "criu failed without saying why"
}

func (f *Failure) Unwrap() error { return f.Caller }

// Process is one criu, which serves one request.
type Process struct {
	cmd    *exec.Cmd
	socket *os.File
	held   bool // PreResume isn't answered: criu would go on after a refusal
}

// Starter starts a command where it belongs: what criu forks and restores is born there.
type Starter func(*exec.Cmd) error

// Here starts a command in the cgroups of its caller.
var Here Starter = (*exec.Cmd).Start

// Start runs criu, whose command line is command. The files become its
// descriptors 4, 5 and so on.
func Start(command []string, start Starter, files ...*os.File) (*Process, error) {
	return startServing(command, start, files, false)
}

// StartHeld is Start for a criu that restores and never comes past PreResume: what it has
// restored executes no instruction, also if the caller is killed. Kill all of it, criu first
// or with the others.
func StartHeld(command []string, start Starter, files ...*os.File) (*Process, error) {
	return startServing(command, start, files, true)
}

// startServing runs criu. A held one has our end of its socket, too: it finds that open as long
// as it waits for an answer.
func startServing(command []string, start Starter, files []*os.File, held bool) (*Process, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make criu's socket: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "criu"), os.NewFile(uintptr(pair[1]), "criu")
	defer theirs.Close()
	files = append([]*os.File{theirs}, files...)
	if held {
		files = append(files, ours)
	}
	cmd, err := spawn(append(slices.Clone(command), "swrk", "3"), "", start, files)
	if err != nil {
		ours.Close()
		return nil, err
	}
	return &Process{cmd: cmd, socket: ours, held: held}, nil
}

// withoutBreakpoints has criu stop tasks at system calls rather than at a hardware breakpoint, as
// it does on machines that have none. The first one on a machine makes the kernel wait for a
// grace period: 10 ms, more than all other steps of a small session together.
const withoutBreakpoints = "CRIU_FAULT=130"

// spawn runs a command in dir. The files get the numbers from 3.
func spawn(command []string, dir string, start Starter, files []*os.File) (*exec.Cmd, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", withoutBreakpoints}
	cmd.ExtraFiles = files
	// Without further groups: a task that had none would get those that criu has.
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: uint32(os.Geteuid()), Gid: uint32(os.Getegid())}}
	if err := start(cmd); err != nil {
		return nil, fmt.Errorf("start criu: %w", err)
	}
	return cmd, nil
}

// Dump captures a tree and returns when criu has ended. notify is called
// between its steps.
func (p *Process) Dump(o Options, notify func(Notice) error) error {
	_, err := p.call(typeDump, o, notify)
	return err
}

// Restore brings a tree back and returns the pid of its root, as the caller
// sees it, when criu has ended.
func (p *Process) Restore(o Options, notify func(Notice) error) (int, error) {
	return p.call(typeRestore, o, notify)
}

// End ends a criu that got no request.
func (p *Process) End() {
	p.socket.Close()
	_ = p.cmd.Process.Kill() // it may have ended by itself
	_ = p.cmd.Wait()
}

// PID is criu's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// KillRestore ends a criu that hangs at the end of a restore. A dump must never
// be ended so: it takes the session with it.
func (p *Process) KillRestore() {
	// It may have ended meanwhile.
	_ = p.cmd.Process.Kill()
}

func (p *Process) call(kind int, o Options, notify func(Notice) error) (int, error) {
	pid, err := p.converse(kind, o, notify)
	p.socket.Close()
	waitErr := p.cmd.Wait()
	if err == nil && waitErr != nil {
		err = fmt.Errorf("criu: %w", waitErr)
	}
	return pid, killedOr(err, waitErr)
}

func (p *Process) converse(kind int, o Options, notify func(Notice) error) (int, error) {
	if err := p.send(encodeRequest(kind, o)); err != nil {
		return 0, fmt.Errorf("send criu its request: %w", err)
	}
	var refused error
	for {
		r, err := p.receive()
		if err != nil {
			if refused != nil {
				return 0, &Failure{Caller: refused}
			}
			return 0, fmt.Errorf("receive criu's answer: %w", err)
		}
		if r.kind == typeNotify {
			if err := notify(Notice{Step: r.script, PID: r.pid}); err != nil && refused == nil {
				refused = err
			}
			if p.held && r.script == PreResume {
				continue // until it is killed
			}
			if err := p.send(encodeNotifyReply(refused == nil)); err != nil {
				return 0, fmt.Errorf("answer criu at %s: %w", r.script, err)
			}
			continue
		}
		if !r.success || refused != nil {
			return 0, &Failure{Errno: unix.Errno(r.errno), Text: r.errmsg, Caller: refused}
		}
		return r.pid, nil
	}
}

func (p *Process) send(m []byte) error {
	_, err := p.socket.Write(m)
	return err
}

// maxResponse is well above what criu sends: a name, a pid, one line of error.
const maxResponse = 64 << 10

func (p *Process) receive() (response, error) {
	buf := make([]byte, maxResponse)
	n, err := p.socket.Read(buf)
	if err != nil {
		if errors.Is(err, io.EOF) {
			return response{}, errors.New("criu ended without an answer")
		}
		return response{}, err
	}
	return decodeResponse(buf[:n])
}
