package criu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/cgroup"
	"github.com/diapause/diapause/workers/confine"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/hide"
	"github.com/diapause/diapause/workers/shim"
	"github.com/diapause/diapause/workers/shim/control"
	"github.com/diapause/diapause/workers/shim/criu/mends"
)

// launch makes the cgroups and directories of a session and starts its shim,
// which has its Setup when launch returns.
func (h *shims) launch(f driver.Fence, below lower, boot schemas.Boot, own ownLayer) (*control.Conn, error) {
	spec := below.spec
	limits, err := confine.Of(spec)
	if err != nil {
		return nil, refuse(err)
	}
	if err := h.makeGroups(f, spec, boot); err != nil {
		return nil, err
	}
	if err := os.Mkdir(h.dir.session(f.UID), 0o700); err != nil {
		return nil, fmt.Errorf("make the session's directory: %w", err)
	}
	conn, err := h.spawn(f, boot)
	if err != nil {
		return nil, err
	}
	err = conn.Send(shim.Setup{
		UID: f.UID, Name: f.Name, Epoch: f.Epoch, Spec: spec, Boot: boot,
		Data: h.options.Data, Dir: h.dir.session(f.UID), Run: h.dir.run,
		Cgroup: h.options.cgroups(), Criu: h.options.Criu, EndsWithCriu: !slices.Contains(mends.Missing(h.options.Criu), mends.ExitKill), Self: h.program.args, URL: h.options.URL, Door: h.options.Door, Failpoints: h.shimPoints(),
		LayerSize: own.size, LayerGiven: own.given, Limits: limits, Hidden: below.hidden, ImageRoot: below.image,
		Record: f.Record,
	})
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// hidden lists what a session doesn't see of the root below it.
func (d *Driver) hidden(spec schemas.Spec) ([]hide.Path, error) {
	hidden, err := hide.Inside(shim.Setup{Spec: spec}.Base(), append([]string{d.options.Data}, d.options.Hidden...))
	if errors.Is(err, hide.ErrWithin) {
		return nil, &driver.Error{Kind: driver.Refused, Err: err, Text: fmt.Sprintf("a session can't have the root %s", spec.Root), Hint: "put it outside the data directory and the store"}
	}
	return hidden, err
}

// makeGroups makes the cgroups. What the shim needs in the session before that runs may
// not fit into its limits: the shim sets the limit of processes when it runs, and after a
// restore all limits.
func (h *shims) makeGroups(f driver.Fence, spec schemas.Spec, boot schemas.Boot) error {
	limits := cgroup.Limits{Memory: spec.Memory, CPUs: spec.CPUs}
	if boot != schemas.BootClean {
		limits = cgroup.Limits{}
	}
	if _, err := h.hierarchy.Create(shim.SessionGroup(f.UID), limits); err != nil {
		return fmt.Errorf("make the cgroup of session %s: %w", f.Name, err)
	}
	if _, err := h.hierarchy.Create(shim.ShimGroup(f.UID), cgroup.Limits{}); err != nil {
		return fmt.Errorf("make the cgroup of session %s: %w", f.Name, err)
	}
	return nil
}

// spawn starts a shim in its own cgroup, mount namespace and session, so that
// nothing that ends the worker ends it.
func (h *shims) spawn(f driver.Fence, boot schemas.Boot) (*control.Conn, error) {
	ours, theirs, err := control.Pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	cmd := &exec.Cmd{
		Path: h.program.path, Args: h.program.args, Env: []string{"GOMAXPROCS=2", "GOGC=50"}, Dir: "/",
		ExtraFiles:  []*os.File{theirs},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWNS},
	}
	if boot == schemas.BootTrial {
		// Ports that the session itself, or another, has here are no matter then.
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWNET
	}
	group, ok := h.hierarchy.Group(shim.ShimGroup(f.UID))
	if !ok {
		ours.Close()
		return nil, fmt.Errorf("the cgroup of session %s is gone", f.Name)
	}
	if err := group.Start(cmd); err != nil {
		ours.Close()
		return nil, fmt.Errorf("start the shim of session %s: %w", f.Name, err)
	}
	h.children.Go(func() {
		// A shim tells what it has to tell over its socket.
		_ = cmd.Wait()
	})
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

// letGo does the rest of that, after "ready". release ends the watch on ctx.
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
		return nil, fmt.Errorf("let the session run: %w", err)
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
