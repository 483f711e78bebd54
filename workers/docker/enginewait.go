package docker

import (
	"context"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// awaitRemoved waits until the engine has removed a container.
func (e *engine) awaitRemoved(ctx context.Context, id string) error {
	return e.await(ctx, id, container.WaitConditionRemoved, "remove a container")
}

// awaitStopped waits until a container doesn't run.
func (e *engine) awaitStopped(ctx context.Context, id string) error {
	return e.await(ctx, id, container.WaitConditionNotRunning, "wait for the end of a container")
}

// await waits until a container meets a condition or no longer exists.
func (e *engine) await(ctx context.Context, id string, is container.WaitCondition, what string) error {
	w := e.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: is})
	select {
	case <-w.Result:
		return nil
	case err := <-w.Error:
		if missing(err) {
			return nil
		}
		return e.failed(what, err)
	case <-ctx.Done():
		return ctx.Err()
	}
}
