package stage

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/confine/limits"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/shim/control"
	"github.com/diapause/diapause/workers/shim/tiny"
)

// The descriptors that the shim hands over, in this order.
const (
	controlFD = 3
	statusFD  = 4 // "first": where init reports who ended
	stdioFD   = 5 // standard output and error of a command without a terminal
)

// Config says what to set up. Command and the capabilities count for "join".
type Config struct {
	Command Command `json:"command"`

	Root       string `json:"root"`       // the session's root file system, mounted
	Terminals  string `json:"terminals"`  // the devpts instance of the session, mounted
	Loopback   bool   `json:"loopback"`   // the network namespace is new: bring lo up
	Generation []byte `json:"generation"` // first content of the generation file
	Resolver   []byte `json:"resolver"`   // the content of resolv.conf, if it isn't the root's
	// OwnResolver says that Resolver replaces the root's own file, too.
	OwnResolver bool `json:"own_resolver,omitempty"`

	// Image says that the root is that of a container image, which may lack what programs expect.
	Image bool `json:"image,omitempty"`

	Files map[string][]byte `json:"files,omitempty"` // below Home, by their paths

	Limits limits.Limits `json:"limits"`
}

// Report is the answer: the pid of the command within the session, or why there
// is none.
type Report struct {
	PID    int         `json:"pid"`
	Kind   driver.Kind `json:"kind,omitempty"`
	Error  string      `json:"error,omitempty"`
	Hint   string      `json:"hint,omitempty"`   // driver.Error's
	Status int         `json:"status,omitempty"` // driver.Error's
}

// Err gives the error of the report, if it has one.
func (r Report) Err() error {
	switch {
	case r.Error == "":
		return nil
	case r.Kind == driver.Refused:
		return &driver.Error{Kind: driver.Refused, Text: r.Error, Hint: r.Hint, Status: r.Status}
	}
	return errors.New(r.Error)
}

// Go is the message that lets the leader run.
type Go struct{}

// The kinds of stage.
const (
	First = "first"
	Join  = "join"
)

// Main runs a stage and returns its exit code. It must be called on the main
// goroutine before any other is started, since it stays on that one thread.
func Main(kind string) int {
	// Privileges, and being the tracer of the leader, belong to a thread.
	runtime.LockOSThread()
	// The shim's descriptors were made inheritable to get here. No further.
	if err := unix.CloseRange(controlFD, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return 1
	}
	conn, err := control.FromFile(os.NewFile(controlFD, "control"))
	if err != nil {
		return 1
	}
	var c Config
	files, err := conn.Receive(&c)
	if err != nil {
		return 1 // the shim is gone
	}
	switch kind {
	case First:
		if err = enterNetwork(files); err == nil {
			err = first(conn, c)
		}
	case Join:
		err = join(conn, c)
	default:
		err = fmt.Errorf("unknown stage %q", kind)
	}
	if err != nil {
		text, hint := driver.HintOf(err)
		report := Report{Error: text, Hint: hint, Kind: driver.KindOf(err)}
		var refusal *driver.Error
		if errors.As(err, &refusal) {
			report.Status = refusal.Status
		}
		// If the shim can't be told, it sees that this process ended.
		_ = conn.Send(report)
		return 1
	}
	return 0
}

func first(conn *control.Conn, c Config) error {
	if err := build(c); err != nil {
		return err
	}
	// The shim is shielded from the out-of-memory killer, its session is not.
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("0"), 0); err != nil {
		return fmt.Errorf("set oom_score_adj: %w", err)
	}
	if err := apart(); err != nil {
		return err
	}
	if err := confineThread(c.Limits); err != nil {
		return err
	}
	leader, err := c.Command.start(true)
	if err != nil {
		return err
	}
	if err := conn.Send(Report{PID: leader}); err != nil {
		return err
	}
	// Init keeps it. If the shim has ended before, the next line says so.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("end with the shim: %w", err)
	}
	if _, err := conn.Receive(&Go{}); err != nil {
		return fmt.Errorf("the shim gave up: %w", err)
	}
	return becomeInit(leader)
}

// joinSessionKeyring is KEYCTL_JOIN_SESSION_KEYRING.
const joinSessionKeyring = 1

// apart gives the calling thread, and so what it starts, a session keyring of its own, in place of
// that of the daemon, and a cgroup namespace: the session's group is the root of all that it sees.
func apart() error {
	_, _, errno := unix.RawSyscall(unix.SYS_KEYCTL, joinSessionKeyring, 0, 0)
	if errno != 0 && errno != unix.ENOSYS { // a kernel without keys has none to share
		return fmt.Errorf("make a session keyring: %w", errno)
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil && err != unix.EINVAL {
		return fmt.Errorf("make a cgroup namespace: %w", err)
	}
	return nil
}

// becomeInit gives this process's place to init, which lets the leader run: this
// one has threads that never dropped their privileges, and must be gone by then.
func becomeInit(leader int) error {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open /dev/null: %w", err)
	}
	for fd := range 3 {
		if err := unix.Dup3(null, fd, 0); err != nil {
			return fmt.Errorf("redirect descriptor %d: %w", fd, err)
		}
	}
	if err := unix.Dup3(statusFD, tiny.StatusFD, 0); err != nil {
		return fmt.Errorf("hand over the status pipe: %w", err)
	}
	err = syscall.Exec(initPath, []string{"init", strconv.Itoa(leader)}, nil)
	return fmt.Errorf("execute the session's init: %w", err)
}

func join(conn *control.Conn, c Config) error {
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("0"), 0); err != nil {
		return fmt.Errorf("set oom_score_adj: %w", err)
	}
	// The program that brought this one in has loaded the filter.
	if err := confineThread(limits.Limits{Capabilities: c.Limits.Capabilities}); err != nil {
		return err
	}
	pid, err := c.Command.start(false)
	if err != nil {
		return err
	}
	return conn.Send(Report{PID: pid})
}

// enterNetwork enters the network that came with the Config, if one did. It is that of this thread,
// and so of what it starts and becomes.
func enterNetwork(files []*os.File) error {
	for _, f := range files {
		err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
		f.Close()
		if err != nil {
			return fmt.Errorf("enter the session's network: %w", err)
		}
	}
	return nil
}
