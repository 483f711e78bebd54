package criu

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/cgroup"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/shim"
	"github.com/diapause/diapause/workers/shim/control"
)

// launch makes the cgroups and directories of a session and starts its shim,
// which has its Setup when launch returns.
func (d *Driver) launch(f driver.Fence, spec schemas.Spec, boot schemas.Boot) (*control.Conn, error) {
	if err := d.makeGroups(f, spec, boot); err != nil {
		return nil, err
	}
	if err := os.Mkdir(d.dir.session(f.UID), 0o700); err != nil {
		return nil, fmt.Errorf("make the session's directory: %w", err)
	}
	conn, err := d.spawn(f, boot)
	if err != nil {
		return nil, err
	}
	err = conn.Send(shim.Setup{
		UID: f.UID, Name: f.Name, Epoch: f.Epoch, Spec: spec, Boot: boot,
		Data: d.options.Data, Dir: d.dir.session(f.UID), Run: d.dir.run,
		Cgroup: d.cgroups(), Criu: d.options.Criu, Self: d.options.Self, URL: d.options.URL, Failpoints: d.shimPoints(),
	})
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// makeGroups makes the cgroups. What the shim needs in the session before it runs
// would not fit into all of its limits: the number of processes is limited when
// it runs, and after a restore all of them are.
func (d *Driver) makeGroups(f driver.Fence, spec schemas.Spec, boot schemas.Boot) error {
	limits := cgroup.Limits{Memory: spec.Memory, CPUs: spec.CPUs}
	if boot != schemas.BootClean {
		limits = cgroup.Limits{}
	}
	if _, err := d.hierarchy.Create(shim.SessionGroup(f.UID), limits); err != nil {
		return fmt.Errorf("make the cgroup of session %s: %w", f.Name, err)
	}
	if _, err := d.hierarchy.Create(shim.ShimGroup(f.UID), cgroup.Limits{}); err != nil {
		return fmt.Errorf("make the cgroup of session %s: %w", f.Name, err)
	}
	return nil
}

// spawn starts a shim in its own cgroup, mount namespace and session, so that
// nothing that ends the worker ends it.
func (d *Driver) spawn(f driver.Fence, boot schemas.Boot) (*control.Conn, error) {
	ours, theirs, err := control.Pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	self := d.options.Self
	cmd := exec.Command(self[0], self[1:]...)
	cmd.Env = []string{"GOMAXPROCS=2", "GOGC=50"}
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWNS}
	if boot == schemas.BootTrial {
		// Ports that the session itself, or another, has here are no matter then.
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWNET
	}
	if err := cmd.Start(); err != nil {
		ours.Close()
		return nil, fmt.Errorf("start the shim of session %s: %w", f.Name, err)
	}
	d.children.Go(func() {
		// A shim tells what it has to tell over its socket.
		_ = cmd.Wait()
	})
	group, ok := d.hierarchy.Group(shim.ShimGroup(f.UID))
	if !ok {
		err = fmt.Errorf("the cgroup of session %s is gone", f.Name)
	} else {
		err = group.Add(cmd.Process.Pid)
	}
	if err != nil {
		ours.Close() // without a Setup it ends
		return nil, fmt.Errorf("put the shim of session %s into its cgroup: %w", f.Name, err)
	}
	return ours, nil
}

// converse carries a start or a restore from "ready" to "running": begin is
// asked in between.
func converse(ctx context.Context, conn *control.Conn, f driver.Fence, begin func(context.Context) error) (*shim.State, error) {
	release := interruptible(ctx, conn)
	defer release()
	if _, err := expect(conn, shim.PhaseReady); err != nil {
		return nil, orDone(ctx, err)
	}
	return letGo(ctx, conn, f, release, begin)
}

// letGo carries it on from "ready", ctx being watched until release is called.
func letGo(ctx context.Context, conn *control.Conn, f driver.Fence, release func(), begin func(context.Context) error) (*shim.State, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := begin(ctx); err != nil {
		return nil, err
	}
	// From here on the session may run: its shim's last word is waited for.
	release()
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	if err := conn.Send(shim.Answer{Go: true, Lease: shim.LeaseOf(f)}); err != nil {
		return nil, fmt.Errorf("give the shim the word to go: %w", err)
	}
	m, err := expect(conn, shim.PhaseRunning)
	if err != nil {
		return nil, err
	}
	return m.State, nil
}

// interruptible makes what waits on conn give up when ctx ends, until release is
// called.
func interruptible(ctx context.Context, conn *control.Conn) (release func()) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	return func() { stop() }
}

// orDone gives the reason why ctx ended in place of an error that follows from it.
func orDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func expect(conn *control.Conn, phase string) (shim.Message, error) {
	var m shim.Message
	files, err := conn.Receive(&m)
	for _, f := range files {
		f.Close()
	}
	switch {
	case err != nil:
		return m, fmt.Errorf("the session's shim ended: %w", err)
	case m.Failure != nil:
		return m, m.Failure.Err()
	case m.Phase != phase:
		return m, fmt.Errorf("the session's shim said %q instead of %q", m.Phase, phase)
	}
	return m, nil
}

// discardWait bounds the wait for what is left of a session to be gone.
const discardWait = time.Minute

// discard removes all that a session has here, after its shim has ended or is
// about to end by itself.
func (d *Driver) discard(f driver.Fence) error {
	ctx, cancel := context.WithTimeout(context.Background(), discardWait)
	defer cancel()
	if err := d.emptied(ctx, f); err != nil {
		return err
	}
	return d.remove(ctx, f.UID)
}

// emptied kills what a session has of processes, and waits until its shim has ended.
func (d *Driver) emptied(ctx context.Context, f driver.Fence) error {
	// A shim that waits for a restore that hangs would not end.
	if group, ok := d.hierarchy.Group(shim.SessionGroup(f.UID)); ok {
		if err := group.Kill(ctx); err != nil {
			return fmt.Errorf("kill what is left of session %s: %w", f.Name, err)
		}
	}
	lock, err := d.awaitLock(ctx, f.UID)
	if err != nil {
		return err
	}
	return lock.Close()
}

func (d *Driver) runFile(name string) string { return filepath.Join(d.dir.run, name) }
