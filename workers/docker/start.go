package docker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/lease/term"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/workers/driver"
)

// starter brings sessions to run: it decides whether one may start here, records it, and
// starts its container.
type starter struct {
	engine     *engine
	notes      *notes
	states     *states
	claims     *claims
	builder    *builder
	remover    *remover
	log        *slog.Logger
	failpoints *failpoint.Set
}

// leased refuses to let a session run when its host may have lost it to another.
func leased(f driver.Fence) error {
	if f.Lease == nil {
		return nil
	}
	if over := term.Now().Sub(f.Lease().Until); over >= 0 {
		return fmt.Errorf("session %s: %w: it was to be renewed %v ago", f.Name, driver.ErrNoLease, over.Round(time.Millisecond))
	}
	return nil
}

// start implements driver.Driver.
func (s *starter) start(ctx context.Context, f driver.Fence, spec schemas.Spec, begin func(context.Context) error) (driver.Instance, error) {
	n, err := s.vacant(ctx, f)
	if err != nil {
		return driver.Instance{}, err
	}
	if again, i, err := s.startHeld(ctx, f, n, begin); again {
		return i, err
	}
	o, _, err := optionsOf(spec)
	if err != nil {
		return driver.Instance{}, err
	}
	if o.Container != "" {
		return s.adopt(ctx, f, n, o, begin)
	}
	p, err := plan(f, spec)
	if err != nil {
		return driver.Instance{}, err
	}
	kept := n.Phase == held && !n.Adopted // without a container: that one has been removed
	n = note{UID: f.UID, Name: f.Name, Epoch: f.Epoch, Phase: making, Kept: kept, Image: n.Image, Anonymous: n.Anonymous, Binds: o.Binds, Shared: o.SharedVolumes}
	i, err := s.launch(ctx, f, &n, func(ctx context.Context) error { return s.builder.make(ctx, f, &n, spec, p) }, begin, nil)
	return i, err
}

// vacant gives what is known of a session that nothing may be of here.
func (s *starter) vacant(ctx context.Context, f driver.Fence) (note, error) {
	n, err := s.notes.pass(f)
	if err != nil {
		return n, err
	}
	if err := ctx.Err(); err != nil {
		return n, err
	}
	if f.Guard {
		return n, refuse("session %s is to be resumed elsewhere when its host is gone, but a container can't freeze by itself before: make it with --on-host-loss wait", f.Name)
	}
	if _, _, err := s.states.instance(ctx, n); err == nil {
		return n, refuse("session %s is on this host already", f.Name)
	} else if !errors.Is(err, driver.ErrNotHere) {
		return n, err
	}
	if n.Phase != gone && n.Phase != held {
		if err := s.remover.unmake(ctx, n); err != nil { // of an attempt that was cut off
			return n, err
		}
		if n, err = s.notes.read(f.UID); err != nil {
			return n, err
		}
	}
	return n, s.engine.reach(ctx)
}

// launch makes a container, asks whether it may run, and starts it. After an error
// nothing of it is left, unless it may have run.
func (s *starter) launch(ctx context.Context, f driver.Fence, n *note, build func(context.Context) error, begin func(context.Context) error, last func(context.Context) error) (driver.Instance, error) {
	err := s.notes.write(*n)
	if err == nil {
		err = build(ctx)
	}
	if err == nil {
		err = s.builder.startable(ctx, *n)
	}
	if err == nil {
		err = begin(ctx)
	}
	if err == nil {
		err = leased(f)
	}
	if err == nil && last != nil {
		err = last(ctx)
	}
	if err == nil {
		err = s.run(ctx, n)
	}
	if err != nil {
		undo, done := undoing(ctx)
		defer done()
		if s.ranAnyway(undo, *n, err) {
			return driver.Instance{}, err
		}
		return driver.Instance{}, errors.Join(err, s.remover.unmake(undo, *n))
	}
	return s.states.inspect(ctx, f.UID)
}

// ranAnyway reports whether a container whose start failed with why may have executed
// something. One that is gone may have, unless the engine said that it didn't start it.
func (s *starter) ranAnyway(ctx context.Context, n note, why error) bool {
	if n.Phase != here {
		return false
	}
	got, err := s.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})
	if missing(err) {
		return !cerrdefs.IsInternal(why) && !cerrdefs.IsNotFound(why) && !cerrdefs.IsConflict(why) && !cerrdefs.IsInvalidArgument(why)
	}
	return err != nil || !neverRan(&got.Container)
}

// run starts a container that is all made, unless it didn't run when it was captured.
func (s *starter) run(ctx context.Context, n *note) error {
	if n.NotRunning != nil {
		got, err := s.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})
		if err != nil {
			return s.engine.failed("look at the container of session "+n.Name.String(), err)
		}
		n.NotRunning = notRunningOf(got.Container.State) // as it is here; somebody may have started it
	}
	n.Phase, n.Began = here, time.Now().UTC()
	if err := s.notes.write(*n); err != nil {
		return err
	}
	if err := s.failpoints.At(ctx, failpoint.DockerStarts); err != nil {
		return err
	}
	if n.NotRunning == nil {
		if _, err := s.engine.ContainerStart(ctx, n.Container, client.ContainerStartOptions{}); err != nil {
			return s.unstartable(*n, err)
		}
	}
	if err := s.failpoints.At(ctx, failpoint.DockerReplaces); err != nil {
		return err
	}
	if n.Volumes, n.Networks = nil, nil; n.Adopted { // from now on they are the container's
		if err := s.notes.write(*n); err != nil {
			return err
		}
	}
	if err := s.remover.dropReplaced(ctx, n); err != nil { // whatever is done with it next does it first
		s.log.Warn("what a session was restored in the place of is still there", "session", n.Name.String(), "err", err)
	}
	return s.failpoints.At(ctx, failpoint.DockerRuns)
}

// passing are words of errors that may be gone at the next start.
var passing = []string{
	unix.EAGAIN.Error(), unix.ENOMEM.Error(), unix.EADDRINUSE.Error(), context.DeadlineExceeded.Error(),
	"port is already allocated", "connection error", "transport is closing",
}

// unstartable tells of a container that the engine couldn't start: it would say the same
// again, though it calls most of it an error of its own.
func (s *starter) unstartable(n note, err error) error {
	out := s.engine.failed("start the container of session "+n.Name.String(), err)
	var e *driver.Error
	if !errors.As(out, &e) || !cerrdefs.IsInternal(err) {
		return out
	}
	if !slices.ContainsFunc(passing, func(words string) bool { return strings.Contains(err.Error(), words) }) {
		e.Kind = driver.Refused
	}
	return out
}

// adopt makes a session of a container that is there, as it is.
func (s *starter) adopt(ctx context.Context, f driver.Fence, n note, o dockerspec.Options, begin func(context.Context) error) (driver.Instance, error) {
	got, err := s.engine.ContainerInspect(ctx, o.Container, client.ContainerInspectOptions{})
	if missing(err) {
		return driver.Instance{}, refuse("there is no container %s on the engine of this host", o.Container)
	}
	if err != nil {
		return driver.Instance{}, s.engine.failed("look at container "+o.Container, err)
	}
	c := &got.Container
	quiet := notRunningOf(c.State)
	if !c.State.Running && quiet == nil {
		return driver.Instance{}, refuse("container %s is %s: only one that is created, runs, is paused or has ended can become a session", o.Container, c.State.Status)
	}
	n = note{UID: f.UID, Name: f.Name, Epoch: f.Epoch, Phase: making, Container: c.ID, Adopted: true, Remove: o.Remove || c.HostConfig.AutoRemove, Binds: o.Binds, Shared: o.SharedVolumes, NotRunning: quiet}
	if n.Began, err = time.Parse(time.RFC3339Nano, c.State.StartedAt); err != nil {
		return driver.Instance{}, fmt.Errorf("learn when container %s was started: %w", c.Name[1:], err)
	}
	if err := s.claims.claim(ctx, c, n); err != nil {
		return driver.Instance{}, err
	}
	if err := begin(ctx); err != nil {
		n.Phase, n.Container = gone, ""
		return driver.Instance{}, errors.Join(err, s.notes.write(n))
	}
	n.Phase = here
	if err := s.notes.write(n); err != nil {
		return driver.Instance{}, err
	}
	return s.states.inspect(ctx, f.UID)
}
