package criu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/shim"
	"github.com/diapause/diapause/workers/shim/control"
)

// dial connects to one of the sockets of a session's shim.
func (d *Driver) dial(ctx context.Context, network, socket string) (*net.UnixConn, error) {
	dir, err := os.Open(d.dir.run)
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

// Dial connects to the session's shim, to speak the protocol of package shim.
func (d *Driver) Dial(ctx context.Context, uid schemas.UID) (net.Conn, error) {
	if err := checkUID(uid); err != nil {
		return nil, err
	}
	return d.dial(ctx, "unix", shim.StreamSocket(uid))
}

// order has a session's shim carry out an order and returns its answer. If ctx
// ends, the shim goes on with it.
func (d *Driver) order(ctx context.Context, uid schemas.UID, o shim.Order) (shim.Message, error) {
	c, err := d.dial(ctx, "unixpacket", shim.ControlSocket(uid))
	if err != nil {
		return shim.Message{}, err
	}
	conn := control.FromConn(c)
	defer conn.Close()
	defer interruptible(ctx, conn)()
	o.Failpoints = d.shimPoints()
	var m shim.Message
	err = conn.Send(o)
	if err == nil {
		_, err = conn.Receive(&m)
	}
	if err != nil {
		return m, orDone(ctx, fmt.Errorf("%w: its shim ended (%v)", driver.ErrNotHere, err))
	}
	return m, m.Failure.Err()
}

// shimPoints is what shims are to do wrong.
func (d *Driver) shimPoints() string { return d.options.Failpoints.Text("shim.") }

// statusWait bounds a shim's answer to a question that it can answer at once.
const statusWait = 10 * time.Second

func (d *Driver) status(ctx context.Context, uid schemas.UID) (driver.Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, statusWait)
	defer cancel()
	m, err := d.order(ctx, uid, shim.Order{Op: shim.OrderStatus})
	if err != nil {
		return driver.Instance{}, err
	}
	i := instanceOf(*m.State, m.Frozen)
	i.Fenced = m.Fenced
	return i, nil
}

// Inspect says how one session is on this host now.
func (d *Driver) Inspect(ctx context.Context, uid schemas.UID) (driver.Instance, error) {
	if err := checkUID(uid); err != nil {
		return driver.Instance{}, err
	}
	i, err := d.status(ctx, uid)
	if !errors.Is(err, driver.ErrNotHere) {
		return i, err
	}
	state, readErr := d.readState(uid)
	if errors.Is(readErr, fs.ErrNotExist) {
		return i, err
	}
	if readErr != nil {
		return i, readErr
	}
	return instanceOf(buried(state), false), nil
}

// Preflight says what would stop a capture now.
func (d *Driver) Preflight(ctx context.Context, uid schemas.UID) ([]driver.Blocker, error) {
	m, err := d.order(ctx, uid, shim.Order{Op: shim.OrderPreflight})
	return m.Blockers, err
}

// Observe says what the session does now.
func (d *Driver) Observe(ctx context.Context, uid schemas.UID) (driver.Observation, error) {
	m, err := d.order(ctx, uid, shim.Order{Op: shim.OrderObserve})
	if err != nil {
		return driver.Observation{}, err
	}
	return *m.Seen, nil
}

// Stop kills what is left of the session and removes all that it had here.
func (d *Driver) Stop(ctx context.Context, f driver.Fence) error {
	if err := d.pass(f); err != nil {
		return err
	}
	d.watchers.forget(f.UID)
	_, err := d.order(ctx, f.UID, shim.Order{Op: shim.OrderStop, Epoch: f.Epoch})
	if err != nil && !errors.Is(err, driver.ErrNotHere) {
		return err
	}
	return d.remove(ctx, f.UID)
}

// lockPoll is how often remove looks whether a shim that is about to end has
// ended: nobody tells, since it may be another process's child.
const lockPoll = 5 * time.Millisecond

// remove waits for the session's shim to end and removes what it had. A shim
// that lives on without being told to end makes it wait until ctx ends.
func (d *Driver) remove(ctx context.Context, uid schemas.UID) error {
	lock, err := d.awaitLock(ctx, uid)
	if err != nil {
		return err
	}
	defer lock.Close()
	for _, name := range []string{shim.SessionGroup(uid), shim.ShimGroup(uid)} {
		group, ok := d.hierarchy.Group(name)
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
	if err := d.options.Failpoints.At(ctx, failpoint.CriuStopped); err != nil {
		return err
	}
	if err := os.RemoveAll(d.dir.session(uid)); err != nil {
		return fmt.Errorf("remove the files of session %s: %w", uid, err)
	}
	for _, name := range []string{
		shim.StateFile(uid), shim.StateFile(uid) + ".new", shim.ControlSocket(uid), shim.StreamSocket(uid), shim.LockFile(uid),
	} {
		if err := os.Remove(d.runFile(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the files of session %s: %w", uid, err)
		}
	}
	return nil
}

func (d *Driver) awaitLock(ctx context.Context, uid schemas.UID) (*os.File, error) {
	for {
		lock, err := shim.Lock(d.dir.run, shim.LockFile(uid))
		if !errors.Is(err, shim.ErrLocked) {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the shim of session %s to end: %w", uid, ctx.Err())
		case <-time.After(lockPoll):
		}
	}
}

// Recover lists the sessions on this host, and removes what was left half made.
func (d *Driver) Recover(ctx context.Context) ([]driver.Instance, error) {
	_ = removeStrays("/tmp", time.Now()) // where criu makes them; one that stays takes nothing but its name
	uids, err := d.known()
	if err != nil {
		return nil, err
	}
	if err := d.fences.prune(uids, time.Now()); err != nil {
		return nil, err
	}
	found := make([]*driver.Instance, len(uids))
	var g errgroup.Group
	g.SetLimit(recoverAtOnce)
	for i, uid := range uids {
		g.Go(func() (err error) {
			found[i], err = d.recoverSoon(ctx, uid)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var all []driver.Instance
	for _, i := range found {
		if i == nil {
			continue
		}
		all = append(all, *i)
		if i.State != driver.Exited {
			d.watchers.add(i.UID)
		}
	}
	return all, nil
}

// What Recover waits for one session, and how many it asks at a time.
const (
	recoverWait   = 5 * time.Second
	recoverAtOnce = 32
)

// recoverSoon recovers a session whose shim answers in time, or has ended; none if there
// is nothing of it. One whose shim is stopped, or hangs, is as it was noted last: it mustn't
// keep others from being found, and whatever is asked of it finds it again.
func (d *Driver) recoverSoon(ctx context.Context, uid schemas.UID) (*driver.Instance, error) {
	soon, cancel := context.WithTimeout(ctx, recoverWait)
	defer cancel()
	i, err := d.recoverOne(soon, uid)
	switch {
	case err == nil:
		return &i, nil
	case errors.Is(err, driver.ErrNotHere):
		return nil, nil
	case soon.Err() == nil || ctx.Err() != nil:
		return nil, fmt.Errorf("recover session %s: %w", uid, err)
	}
	state, err := d.readState(uid)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	i = instanceOf(state, false)
	return &i, err
}

// known lists every uid of which there is a trace.
func (d *Driver) known() ([]schemas.UID, error) {
	seen := make(map[schemas.UID]bool)
	var all []schemas.UID
	add := func(name string) {
		if uid := schemas.UID(name); checkUID(uid) == nil && !seen[uid] {
			seen[uid] = true
			all = append(all, uid)
		}
	}
	for _, dir := range []string{d.dir.sessions, d.dir.run} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("look for sessions: %w", err)
		}
		for _, e := range entries {
			name, _, _ := strings.Cut(e.Name(), ".")
			add(name)
		}
	}
	groups, err := d.hierarchy.Names()
	if err != nil {
		return nil, err
	}
	for _, name := range groups {
		if rest, ok := strings.CutPrefix(name, "s-"); ok {
			add(rest)
		} else if rest, ok := strings.CutPrefix(name, "m-"); ok {
			add(rest)
		}
	}
	return all, nil
}

func (d *Driver) recoverOne(ctx context.Context, uid schemas.UID) (driver.Instance, error) {
	i, err := d.status(ctx, uid)
	if err == nil {
		return i, nil
	}
	// No shim, or one that was on its way when its worker went: that undoes what
	// it did and ends, or gets done and answers.
	lock, err := d.awaitLock(ctx, uid)
	if err != nil {
		return driver.Instance{}, err
	}
	lock.Close()
	return d.bury(ctx, uid)
}

// bury deals with a session whose shim is dead. If it had run, its end is
// reported until Stop; what is left of its processes can't be used and goes.
func (d *Driver) bury(ctx context.Context, uid schemas.UID) (driver.Instance, error) {
	state, err := d.readState(uid)
	if errors.Is(err, fs.ErrNotExist) {
		return driver.Instance{}, errors.Join(driver.ErrNotHere, d.remove(ctx, uid))
	}
	if err != nil {
		return driver.Instance{}, err
	}
	if group, ok := d.hierarchy.Group(shim.SessionGroup(uid)); ok {
		if err := group.Kill(ctx); err != nil {
			return driver.Instance{}, fmt.Errorf("kill what is left of session %s: %w", state.Name, err)
		}
	}
	if state.Exit == nil {
		state = buried(state)
		b, err := json.Marshal(state)
		path := d.runFile(shim.StateFile(uid))
		if err == nil {
			err = writeSynced(path+".new", string(b))
		}
		if err == nil {
			err = os.Rename(path+".new", path) // others read it meanwhile
		}
		if err != nil {
			return driver.Instance{}, fmt.Errorf("write down the end of session %s: %w", state.Name, err)
		}
	}
	return instanceOf(state, false), nil
}

// buried is the state of a session whose shim is dead: it ended with it.
func buried(s shim.State) shim.State {
	if s.Exit == nil {
		s.Exit = &schemas.ExitStatus{Code: 137, Signal: 9, Reason: "the session's shim was killed, or the host was restarted"}
		s.PID, s.Lost = 0, true
	}
	return s
}

func (d *Driver) readState(uid schemas.UID) (shim.State, error) {
	var s shim.State
	b, err := os.ReadFile(d.runFile(shim.StateFile(uid)))
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("read the state of session %s: %w", uid, err)
	}
	return s, nil
}
