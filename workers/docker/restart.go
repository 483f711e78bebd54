package docker

import (
	"context"
	"errors"

	"github.com/moby/moby/client"

	"github.com/diapause/diapause/workers/driver"
)

// startHeld starts the held container of a session with the files and volumes that it has. again
// is false if there is none. After an error it is held as before, unless it may have run.
func (s *starter) startHeld(ctx context.Context, f driver.Fence, n note, begin func(context.Context) error) (again bool, i driver.Instance, err error) {
	if n.Phase != held {
		return false, i, nil
	}
	if again, i, err := s.takeStarted(ctx, f, n, begin); again {
		return again, i, err
	}
	id, err := s.held(ctx, n)
	if id == "" {
		return err != nil, i, err
	}
	before, err := s.engine.startedAt(ctx, id)
	if err == nil {
		err = s.builder.startable(ctx, n)
	}
	kept := n
	if err == nil {
		err = begin(ctx)
	}
	if err == nil {
		err = leased(f)
	}
	if err == nil {
		err = s.run(ctx, &n)
	}
	if err != nil {
		undo, done := undoing(ctx)
		defer done()
		if at, lookErr := s.engine.startedAt(undo, id); n.Phase == here && (lookErr != nil || at != before) {
			return true, i, err
		}
		return true, i, errors.Join(err, s.notes.write(kept))
	}
	if err := s.giveRestart(ctx, &n); err != nil {
		return true, i, err
	}
	i, err = s.states.inspect(ctx, f.UID)
	return true, i, err
}

// startedAt gives the engine's time of the last start of a container.
func (e *engine) startedAt(ctx context.Context, id string) (string, error) {
	got, err := e.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return "", e.failed("inspect the held container", err)
	}
	return got.Container.State.StartedAt, nil
}
