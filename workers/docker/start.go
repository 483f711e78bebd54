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

// starter starts the containers of sessions, after it made sure that they may run here.
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

// leased fails if another host may own the session by now.
func leased(f driver.Fence) error {
	if f.Lease == nil {
		return nil
	}
	if over := term.Now().Sub(f.Lease().Until); over >= 0 {
		return fmt.Errorf("session %s: %w %v ago", f.Name, driver.ErrNoLease, over.Round(time.Millisecond))
	}
	return nil
}

// start implements driver.Driver.
func (s *starter) start(ctx context.Context, f driver.Fence, spec schemas.Spec, begin func(context.Context) error) (driver.Instance, error) {
	n, err := s.vacant(ctx, f)
	if err != nil {
		return driver.Instance{}, err
	}
	o, _, err := optionsOf(spec)
	if err != nil {
		return driver.Instance{}, err
	}
	if err := s.succeed(ctx, &n, o); err != nil {
		return driver.Instance{}, err
	}
	if again, i, err := s.startHeld(ctx, f, n, begin); again {
		return i, err
	}
	if o.Container != "" {
		return s.adopt(ctx, f, n, o, begin)
	}
	p, err := plan(f, spec)
	if err != nil {
		return driver.Instance{}, err
	}
	kept := n.Phase == held && !n.Adopted // its container was removed by others
	n = note{UID: f.UID, Name: f.Name, Epoch: f.Epoch, Phase: making, Kept: kept, Image: n.Image, Anonymous: n.Anonymous, Binds: o.Binds, Shared: o.SharedVolumes}
	i, err := s.launch(ctx, f, &n, func(ctx context.Context) error { return s.builder.make(ctx, f, &n, spec, p) }, begin, nil)
	return i, err
}

// vacant gives the note of a session after it made sure that nothing of it is here.
func (s *starter) vacant(ctx context.Context, f driver.Fence) (note, error) {
	n, err := s.notes.pass(f)
	if err != nil {
		return n, err
	}
	if err := ctx.Err(); err != nil {
		return n, err
	}
	if f.Guard {
		return n, hinted(refuse("session %s: containers can't freeze by themselves when their host is lost", f.Name), "make it with --on-host-loss wait")
	}
	if _, _, err := s.states.instance(ctx, n); err == nil {
		return n, refuse("session %s is on this host already", f.Name)
	} else if !errors.Is(err, driver.ErrNotHere) {
		return n, err
	}
	if n.Phase != gone && n.Phase != held {
		if err := s.remover.unmake(ctx, n); err != nil { // the rest of an attempt that was cut off
			return n, err
		}
		if n, err = s.notes.read(f.UID); err != nil {
			return n, err
		}
	}
	return n, s.engine.reach(ctx)
}

// launch builds a container, calls begin and starts it. After an error nothing of it is left,
// unless it may have run.
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

// ranAnyway reports whether a container may have executed something although its start failed with
// why. One that no longer exists may have, unless the engine said that it didn't start it.
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

// run starts a container that is ready, unless it didn't run when it was captured.
func (s *starter) run(ctx context.Context, n *note) error {
	if n.NotRunning != nil {
		got, err := s.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})
		if err != nil {
			return s.engine.failed("inspect the container of session "+n.Name.String(), err)
		}
		n.NotRunning = notRunningOf(got.Container.State) // as it is here: it may have been started
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
	if n.Volumes, n.Networks = nil, nil; n.Adopted { // they belong to the container from now on
		if err := s.notes.write(*n); err != nil {
			return err
		}
	}
	if err := s.remover.dropReplaced(ctx, n); err != nil { // the next operation on it tries again first
		s.log.Warn("remove what a restore replaced", "session", n.Name.String(), "err", err)
	}
	return s.failpoints.At(ctx, failpoint.DockerRuns)
}

// passing are texts of the engine's errors that another start may not have.
var passing = []string{
	unix.EAGAIN.Error(), unix.ENOMEM.Error(), unix.EADDRINUSE.Error(), context.DeadlineExceeded.Error(),
	"port is already allocated", "connection error", "transport is closing",
}

// unstartable gives the error of a start that failed. The engine calls most of them internal,
// but another start fails as well unless the error is one of passing.
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

// adopt makes a session of an existing container, as it is.
func (s *starter) adopt(ctx context.Context, f driver.Fence, n note, o dockerspec.Options, begin func(context.Context) error) (driver.Instance, error) {
	got, err := s.engine.ContainerInspect(ctx, o.Container, client.ContainerInspectOptions{})
	if missing(err) {
		return driver.Instance{}, refuse("there is no container %s on the engine of this host", o.Container)
	}
	if err != nil {
		return driver.Instance{}, s.engine.failed("inspect container "+o.Container, err)
	}
	c := &got.Container
	quiet := notRunningOf(c.State)
	if !c.State.Running && quiet == nil {
		return driver.Instance{}, hinted(refuse("container %s is %s and can't become a session", o.Container, c.State.Status), "it has to be created, running, paused or exited")
	}
	n = note{UID: f.UID, Name: f.Name, Epoch: f.Epoch, Phase: making, Container: c.ID, Adopted: true, Remove: o.Remove || c.HostConfig.AutoRemove, Binds: o.Binds, Shared: o.SharedVolumes, NotRunning: quiet}
	if n.Began, err = time.Parse(time.RFC3339Nano, c.State.StartedAt); err != nil {
		return driver.Instance{}, fmt.Errorf("read when container %s was started: %w", c.Name[1:], err)
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
