package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/moby/moby/client"

	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/workers/driver"
)

// Others may start a held container, or remove a session's container and start another one in its
// place (`docker compose up` after a change does). Both are offered as the session, and started
// as what they are: running already.

// takeStarted has a session go on with its held container, which others have started. again is
// false if none was.
func (s *starter) takeStarted(ctx context.Context, f driver.Fence, n note, begin func(context.Context) error) (again bool, i driver.Instance, err error) {
	if n.Phase != held || n.Container == "" {
		return false, i, nil
	}
	got, err := s.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})
	if missing(err) || err == nil && !got.Container.State.Running {
		return false, i, nil
	}
	if err != nil {
		return true, i, s.engine.failed("inspect the held container of session "+n.Name.String(), err)
	}
	kept := n
	n.Phase, n.NotRunning = here, nil
	if n.Began, err = time.Parse(time.RFC3339Nano, got.Container.State.StartedAt); err != nil {
		return true, i, fmt.Errorf("read when container %s was started: %w", got.Container.Name[1:], err)
	}
	if err := begin(ctx); err != nil {
		return true, i, err
	}
	if err := leased(f); err != nil {
		return true, i, err
	}
	if err := s.notes.write(n); err != nil {
		return true, i, errors.Join(err, s.notes.write(kept))
	}
	if err := s.giveRestart(ctx, &n); err != nil {
		return true, i, err
	}
	i, err = s.states.inspect(ctx, f.UID)
	return true, i, err
}

// giveRestart gives a container that was held its restart policy back.
func (s *starter) giveRestart(ctx context.Context, n *note) error {
	if n.Restart == nil {
		return nil
	}
	if err := s.engine.setRestart(ctx, n.Container, *n.Restart); err != nil {
		return err
	}
	n.Restart = nil
	return s.notes.write(*n)
}

// succeed makes way for another container in the place of one that a session kept and others have
// removed. It fails while that one is there.
func (s *starter) succeed(ctx context.Context, n *note, o dockerspec.Options) error {
	if n.Phase != held || o.Container == "" {
		return nil
	}
	got, err := s.engine.ContainerInspect(ctx, o.Container, client.ContainerInspectOptions{})
	if missing(err) || err == nil && got.Container.ID == n.Container {
		return nil
	}
	if err != nil {
		return s.engine.failed("inspect container "+o.Container, err)
	}
	next := got.Container.Name[1:]
	if !n.Adopted {
		return refuse("container %s can't replace what Diapause made for session %s", next, n.Name)
	}
	was, err := s.engine.called(ctx, n.Container)
	if err != nil {
		return err
	}
	if was != "" {
		return hinted(refuse("session %s has container %s, so container %s can't take its place", n.Name, was, next), "remove container "+was)
	}
	left := note{UID: n.UID, Name: n.Name, Epoch: n.Epoch}
	err = s.remover.leave(ctx, *n, left)
	*n = left
	return err
}

// called gives the name of a container, "" if it doesn't exist.
func (e *engine) called(ctx context.Context, id string) (string, error) {
	got, err := e.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if missing(err) || err == nil && takenAway(&got.Container) {
		return "", nil
	}
	if err != nil {
		return "", e.failed("inspect a session's container", err)
	}
	return got.Container.Name[1:], nil
}
