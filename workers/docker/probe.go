package docker

import (
	"context"
	"time"

	"github.com/moby/moby/client"
)

// A command that the engine is just about to start in a container when it is paused, as a
// health check is, never comes to its start, and the engine answers nothing about that
// container until it gives the command up: half a minute, for a health check. So a container
// is paused between two of them.
const (
	probesWait  = 5 * time.Second // they may come one after the other
	probesEvery = 5 * time.Millisecond
)

// betweenProbes waits until no command was begun in a container just now, or for as long as
// can be waited.
func (d *Driver) betweenProbes(ctx context.Context, id string) error {
	for end := time.Now().Add(probesWait); time.Now().Before(end); {
		young, err := d.beginsOne(ctx, id)
		if err != nil || !young {
			return err
		}
		select {
		case <-time.After(probesEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// beginsOne reports whether a command is being started in a container, or was just now.
func (d *Driver) beginsOne(ctx context.Context, id string) (bool, error) {
	got, err := d.engine.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if missing(err) {
		return false, nil // which the pause says, too
	}
	if err != nil {
		return false, d.asked("look at the container that is to be paused", err)
	}
	for _, e := range got.Container.ExecIDs {
		x, err := d.engine.ExecInspect(ctx, e, client.ExecInspectOptions{})
		if err == nil && x.Running && !waitedFor(x.PID, 0) {
			return true, nil
		}
	}
	return false, nil
}
