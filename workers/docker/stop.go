package docker

import (
	"context"
	"errors"
	"log/slog"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/workers/driver"
)

// stopper ends sessions, and keeps what has to outlive them.
type stopper struct {
	engine     *engine
	notes      *notes
	states     *states
	claims     *claims
	remover    *remover
	log        *slog.Logger
	failpoints *failpoint.Set
}

// stop implements driver.Driver. An adopted container is held, stopped, unless it was to be
// removed.
func (s *stopper) stop(ctx context.Context, f driver.Fence) error {
	n, err := s.notes.pass(f)
	if err != nil {
		return err
	}
	if n.Phase == frozen {
		if err := s.unstarted(ctx, n); err != nil {
			return err
		}
	}
	switch n.Phase {
	case gone, held:
		return nil
	case here, frozen:
		return s.end(ctx, n)
	}
	return s.remover.unmake(ctx, n)
}

// end ends a session that has run. If its command ended by itself, or someone else removed its
// container, what it has is kept until the session is removed or started again. It fails while
// the engine doesn't say which.
func (s *stopper) end(ctx context.Context, n note) error {
	i, c, err := s.states.instance(ctx, n)
	ran := err == nil
	if !ran && !errors.Is(err, driver.ErrNotHere) {
		return err
	}
	if ran {
		if err := s.remover.dropReplaced(ctx, &n); err != nil {
			return err
		}
		if c == nil && i.Lost {
			return s.keepRest(ctx, n)
		}
		n.Kept = n.Kept && c == nil
	} // otherwise the volumes that it was to run on may be kept
	if c != nil && n.Phase == here && i.State == driver.Exited && !c.HostConfig.AutoRemove && !n.Ending {
		return s.keep(ctx, n)
	}
	if c != nil && n.Adopted && !n.Remove && n.Old == "" && len(n.Backups) == 0 {
		return s.hold(ctx, n)
	}
	n.Ending = ran
	return s.remover.unmake(ctx, n)
}

// ended implements driver.Ender.
func (s *stopper) ended(ctx context.Context, f driver.Fence) error {
	n, err := s.notes.pass(f)
	if err != nil {
		return err
	}
	i, c, err := s.states.instance(ctx, n)
	if err != nil || c == nil || i.State == driver.Exited || !c.State.Running || c.State.Paused {
		return s.stop(ctx, f) // which says what is wrong
	}
	if err := s.remover.dropReplaced(ctx, &n); err != nil {
		return err
	}
	n.Phase, n.Paused, n.NotRunning, n.Kept = held, false, nil, false
	return s.notes.write(n)
}

// keepRest notes that someone else removed a session's container. Its volumes and networks stay: what
// they hold may be in no image.
func (s *stopper) keepRest(ctx context.Context, n note) error {
	wait, done := context.WithTimeout(ctx, undoTime)
	defer done()
	if err := s.engine.awaitRemoved(wait, n.Container); err != nil {
		if ctx.Err() != nil {
			return err
		}
		s.log.Warn("wait for the removal of a container by someone else", "session", n.Name.String(), "container", n.Container, "err", err)
	}
	next := note{UID: n.UID, Name: n.Name, Epoch: n.Epoch}
	if !n.Adopted {
		next = next.keeping(n)
	}
	return s.remover.leave(ctx, n, next)
}

// hold kills what runs in a container and keeps it, without a restart policy.
func (s *stopper) hold(ctx context.Context, n note) error {
	there, err := s.setAside(ctx, &n)
	if err != nil || !there {
		return err
	}
	s.engine.killPaused(ctx, n.Container)
	_, err = s.engine.ContainerKill(ctx, n.Container, client.ContainerKillOptions{Signal: "SIGKILL"})
	if err != nil && !cerrdefs.IsConflict(err) && !missing(err) { // a conflict says that it doesn't run
		return s.engine.failed("stop the container of session "+n.Name.String(), err)
	}
	if err := s.engine.awaitStopped(ctx, n.Container); err != nil {
		return err
	}
	n.Phase, n.Paused, n.NotRunning = held, false, nil
	return s.notes.write(n)
}

// keep keeps a container that has ended by itself. If others start it meanwhile, it runs on.
func (s *stopper) keep(ctx context.Context, n note) error {
	there, err := s.setAside(ctx, &n)
	if err != nil || !there {
		return err
	}
	n.Phase, n.Paused, n.NotRunning = held, false, nil
	return s.notes.write(n)
}

// setAside sets the restart policy of a container aside. If the container is gone, the rest is kept.
func (s *stopper) setAside(ctx context.Context, n *note) (there bool, err error) {
	got, err := s.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})
	if missing(err) {
		return false, s.keepRest(ctx, *n)
	}
	if err != nil {
		return false, s.engine.failed("inspect the container of session "+n.Name.String(), err)
	}
	if p := got.Container.HostConfig.RestartPolicy; n.Restart == nil {
		n.Restart = &restart{string(p.Name), p.MaximumRetryCount}
		if err := s.notes.write(*n); err != nil {
			return false, err
		}
	}
	if err := s.engine.setRestart(ctx, n.Container, restart{Name: "no"}); err != nil {
		return false, err
	}
	return true, s.failpoints.At(ctx, failpoint.DockerHolding)
}

// release implements driver.Releaser. A held container that was adopted gets its restart policy
// back and isn't started. One that the driver made is removed.
func (s *stopper) release(ctx context.Context, f driver.Fence) error {
	n, err := s.notes.pass(f)
	if err != nil || n.Phase != held {
		return err
	}
	if !n.Adopted {
		n.Kept = false
		return s.remover.unmake(ctx, n)
	}
	if n.Restart != nil {
		if err := s.engine.setRestart(ctx, n.Container, *n.Restart); err != nil {
			return err
		}
	}
	return s.notes.write(note{UID: n.UID, Name: n.Name, Epoch: n.Epoch})
}

// forget implements driver.Forgetter. With the last session this driver's entry in the engine's
// directory goes, too.
func (s *stopper) forget(ctx context.Context, f driver.Fence) error {
	n, err := s.notes.pass(f)
	if err != nil || n.Phase != gone {
		return err
	}
	if err := s.notes.forget(f.UID); err != nil {
		return err
	}
	s.claims.withdraw(ctx)
	return nil
}

// kept implements driver.Keeper.
func (s *stopper) kept() (out []driver.Kept, err error) {
	all, err := s.notes.all()
	for _, n := range all {
		if n.Phase == held {
			out = append(out, driver.Kept{UID: n.UID, Name: n.Name, Epoch: n.Epoch, Foreign: n.Adopted})
		}
	}
	return out, err
}
