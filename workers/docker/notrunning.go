package docker

import (
	"context"
	"fmt"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/workers/driver"
)

// still is how a container is that is there and doesn't run, when that is nothing to
// wonder at: it was so when it became a session, or when it was captured. Somebody who
// starts it makes an ordinary one of it.
type notRunning struct {
	State string `json:"state"`          // created or exited
	Code  int    `json:"code,omitempty"` // of an exited one
	Began string `json:"began"`          // when it was started last, as the engine says it: another time is another start
}

// notRunningOf tells how a container that doesn't run is, nil if it runs or is on its way.
func notRunningOf(s *container.State) *notRunning {
	switch s.Status {
	case container.StateCreated:
		return &notRunning{State: string(s.Status), Began: s.StartedAt}
	case container.StateExited:
		return &notRunning{State: string(s.Status), Code: s.ExitCode, Began: s.StartedAt}
	}
	return nil
}

// stillNotRunning reports whether a container that is noted not to run hasn't been started since.
func (n note) stillNotRunning(s *container.State) bool {
	return n.NotRunning != nil && !s.Running && !s.Restarting && s.StartedAt == n.NotRunning.Began
}

// unstarted makes sure that a container that didn't run when its image was taken hasn't been
// started meanwhile: what it did would be lost.
func (s *stopper) unstarted(ctx context.Context, n note) error {
	if n.NotRunning == nil {
		return nil
	}
	got, err := s.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})
	if missing(err) {
		return nil
	}
	if err != nil {
		return s.engine.failed("look at the container of session "+n.Name.String(), err)
	}
	if c := &got.Container; !n.stillNotRunning(c.State) {
		return &driver.Error{Kind: driver.Transient, Text: fmt.Sprintf("container %s of session %s was started by somebody else while it was suspended: stop it if what it does may be lost", c.Name[1:], n.Name)}
	}
	return nil
}
