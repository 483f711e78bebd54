package criu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/cgroup"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/network"
	"github.com/diapause/diapause/workers/shim"
	"github.com/diapause/diapause/workers/shim/control"
)

// shims are the shims of this host's sessions: it starts them, finds them by their
// sockets, and removes what they leave.
type shims struct {
	options   *Options
	dir       dirs
	hierarchy *cgroup.Hierarchy
	program   *program

	children sync.WaitGroup // those that are this process's children, and what they left to end
}

// dial connects to one of the sockets of a session's shim.
func (h *shims) dial(ctx context.Context, network, socket string) (*net.UnixConn, error) {
	dir, err := os.Open(h.dir.run)
	if err != nil {
		return nil, fmt.Errorf("open the run directory: %w", err)
	}
	defer dir.Close()
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, network, shim.SocketPath(dir.Fd(), socket))
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED) {
		return nil, driver.ErrNotHere
	}
	if err != nil {
		return nil, fmt.Errorf("connect to the session's shim: %w", err)
	}
	return c.(*net.UnixConn), nil
}

// order has a session's shim carry out an order and returns its answer. If ctx
// ends, the shim goes on with it.
func (h *shims) order(ctx context.Context, uid schemas.UID, o shim.Order) (shim.Message, error) {
	c, err := h.dial(ctx, "unixpacket", shim.ControlSocket(uid))
	if err != nil {
		return shim.Message{}, err
	}
	conn := control.FromConn(c)
	defer conn.Close()
	defer interruptible(ctx, conn)()
	o.Failpoints = h.shimPoints()
	var m shim.Message
	err = conn.Send(o)
	var rest []*os.File
	if err == nil {
		rest, err = conn.Receive(&m)
	}
	if len(rest) > 0 { // of a private network; what stays is removed with the next one
		h.children.Go(func() { _ = network.Finish(rest) })
	}
	if err != nil {
		return m, orDone(ctx, fmt.Errorf("%w: its shim ended (%v)", driver.ErrNotHere, err))
	}
	return m, m.Failure.Err()
}

// shimPoints are the armed failpoints of shims, as text.
func (h *shims) shimPoints() string { return h.options.Failpoints.Text("shim.") }

// statusWait bounds a shim's answer to a question that it can answer at once.
const statusWait = 10 * time.Second

func (h *shims) status(ctx context.Context, uid schemas.UID) (driver.Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, statusWait)
	defer cancel()
	m, err := h.order(ctx, uid, shim.Order{Op: shim.OrderStatus})
	if err != nil {
		return driver.Instance{}, err
	}
	i := instanceOf(*m.State, m.Frozen)
	i.Fenced = m.Fenced
	return i, nil
}

// lockPoll is how often remove looks at first whether a shim that is about to end has
// ended, and longestLockPoll how often at last. There is no signal for that: it may be another process's child.
const (
	lockPoll        = 250 * time.Microsecond
	longestLockPoll = 5 * time.Millisecond
)

// remove waits for the session's shim to end, or for the end of ctx, and removes what it
// had. It doesn't order the shim to end.
func (h *shims) remove(ctx context.Context, uid schemas.UID) error {
	lock, err := h.awaitLock(ctx, uid)
	if err != nil {
		return err
	}
	defer lock.Close()
	for _, name := range []string{shim.RehearsalGroup(uid), shim.SessionGroup(uid), shim.ShimGroup(uid)} {
		group, ok := h.hierarchy.Group(name)
		if !ok {
			continue
		}
		if err := group.Kill(ctx); err != nil {
			return fmt.Errorf("kill what is left of session %s: %w", uid, err)
		}
		if err := group.Remove(); err != nil {
			return fmt.Errorf("remove the cgroup of session %s: %w", uid, err)
		}
	}
	if err := h.options.Failpoints.At(ctx, failpoint.CriuStopped); err != nil {
		return err
	}
	if err := os.RemoveAll(h.dir.session(uid)); err != nil {
		return fmt.Errorf("remove the files of session %s: %w", uid, err)
	}
	for _, name := range []string{
		shim.StateFile(uid), shim.StateFile(uid) + ".new", shim.ControlSocket(uid), shim.StreamSocket(uid), shim.LockFile(uid),
	} {
		if err := os.Remove(h.runFile(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the files of session %s: %w", uid, err)
		}
	}
	return nil
}

func (h *shims) awaitLock(ctx context.Context, uid schemas.UID) (*os.File, error) {
	for poll := lockPoll; ; poll = min(2*poll, longestLockPoll) {
		lock, err := shim.Lock(h.dir.run, shim.LockFile(uid))
		if !errors.Is(err, shim.ErrLocked) {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the shim of session %s to end: %w", uid, ctx.Err())
		case <-time.After(poll):
		}
	}
}

func (h *shims) readState(uid schemas.UID) (shim.State, error) {
	var s shim.State
	b, err := os.ReadFile(h.runFile(shim.StateFile(uid)))
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("read the state of session %s: %w", uid, err)
	}
	return s, nil
}

// undone removes what a failed start or restore has left here. A session that may have
// executed something, which its shim notes first, stays as lost until Stop, and the error
// is Broken: the next worker must not start it from the same image as if it hadn't.
func (h *shims) undone(ctx context.Context, f driver.Fence, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardWait)
	defer cancel()
	err := h.emptied(ctx, f) // or its shim might still write
	if _, readErr := h.readState(f.UID); errors.Is(readErr, fs.ErrNotExist) {
		if err == nil {
			err = h.remove(ctx, f.UID)
		}
		return errors.Join(cause, err)
	}
	if err == nil {
		_, err = h.bury(ctx, f.UID)
	}
	if driver.KindOf(cause) != driver.Broken {
		cause = &driver.Error{Kind: driver.Broken, Text: fmt.Sprintf("session %s may have run: its shim was killed", f.Name), Err: cause}
	}
	return errors.Join(cause, err, h.options.Failpoints.At(ctx, failpoint.CriuLost))
}

// vacant makes sure that nothing of that uid is here.
func (h *shims) vacant(f driver.Fence) error {
	_, err := h.status(context.Background(), f.UID)
	if err == nil {
		return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("session %s is on this host already", f.Name)}
	}
	// A crash may have left something of it.
	return h.discard(f)
}

// discardWait bounds the wait for what is left of a session to be gone.
const discardWait = time.Minute

// discard removes all that a session has here, after its shim has ended or is
// about to end by itself.
func (h *shims) discard(f driver.Fence) error {
	ctx, cancel := context.WithTimeout(context.Background(), discardWait)
	defer cancel()
	if err := h.emptied(ctx, f); err != nil {
		return err
	}
	return h.remove(ctx, f.UID)
}

// emptied kills what a session has of processes, and waits until its shim has ended.
func (h *shims) emptied(ctx context.Context, f driver.Fence) error {
	// A shim that waits for a restore that hangs would not end.
	if err := h.killTree(ctx, f.UID); err != nil {
		return err
	}
	lock, err := h.awaitLock(ctx, f.UID)
	if err != nil {
		return err
	}
	return lock.Close()
}

// killTree kills the processes of a session, and those of a rehearsal of it.
func (h *shims) killTree(ctx context.Context, uid schemas.UID) error {
	for _, name := range []string{shim.RehearsalGroup(uid), shim.SessionGroup(uid)} {
		group, ok := h.hierarchy.Group(name)
		if !ok {
			continue
		}
		if err := group.Kill(ctx); err != nil {
			return fmt.Errorf("kill what is left of session %s: %w", uid, err)
		}
	}
	return nil
}

func (h *shims) runFile(name string) string { return filepath.Join(h.dir.run, name) }

func instanceOf(s shim.State, frozen bool) driver.Instance {
	i := driver.Instance{
		UID: s.UID, Name: s.Name, Epoch: s.Epoch, PID: s.PID, Started: s.Started, State: driver.Running,
	}
	switch {
	case s.Exit != nil:
		i.State, i.Exit, i.Lost, i.PID = driver.Exited, s.Exit, s.Lost, 0
		i.Restarted = s.Restarted
	case frozen:
		i.State = driver.Frozen
	}
	return i
}
