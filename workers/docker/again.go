package docker

import (
	"context"
	"errors"

	"github.com/moby/moby/client"

	"github.com/diapause/diapause/workers/driver"
)

// startAgain starts the container that is kept of a session once more, with the files and
// the volumes that it has; again is false if none is kept. After an error it is kept as it
// was, unless it may have run.
func (d *Driver) startAgain(ctx context.Context, f driver.Fence, n note, begin func(context.Context) error) (again bool, i driver.Instance, err error) {
	if n.Phase != held {
		return false, i, nil
	}
	id, err := d.replaceable(ctx, n)
	if id == "" {
		return err != nil, i, err
	}
	before, err := d.startedAt(ctx, id)
	if err == nil {
		err = d.startable(ctx, n)
	}
	kept := n
	if err == nil {
		err = begin(ctx)
	}
	if err == nil {
		err = leased(f)
	}
	if err == nil {
		err = d.run(ctx, &n)
	}
	if err != nil {
		undo, done := undoing(ctx)
		defer done()
		if at, lookErr := d.startedAt(undo, id); n.Phase == here && (lookErr != nil || at != before) {
			return true, i, err
		}
		return true, i, errors.Join(err, d.notes.write(kept))
	}
	if n.Restart != nil {
		if err := d.setRestart(ctx, id, *n.Restart); err != nil {
			return true, i, err
		}
		n.Restart = nil
		if err := d.notes.write(n); err != nil {
			return true, i, err
		}
	}
	i, err = d.Inspect(ctx, f.UID)
	return true, i, err
}

// startedAt tells when a container was started last, as the engine says it.
func (d *Driver) startedAt(ctx context.Context, id string) (string, error) {
	got, err := d.engine.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return "", d.asked("look at the container that is kept", err)
	}
	return got.Container.State.StartedAt, nil
}
