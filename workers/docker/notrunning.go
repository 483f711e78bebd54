package docker

import (
	"context"
	"fmt"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/workers/driver"
)

// notRunning is the state of a container that was adopted or captured while it didn't run. Its
// session counts as running. Once the container is started it is like any other.
type notRunning struct {
	State string `json:"state"`          // created or exited
	Code  int    `json:"code,omitempty"` // the exit status, if it exited
	Began string `json:"began"`          // the engine's time of its last start: it is another after another start
}

// notRunningOf gives the state of a container that is created or exited, nil for any other.
func notRunningOf(s *container.State) *notRunning {
	switch s.Status {
	case container.StateCreated:
		return &notRunning{State: string(s.Status), Began: s.StartedAt}
	case container.StateExited:
		return &notRunning{State: string(s.Status), Code: s.ExitCode, Began: s.StartedAt}
	}
	return nil
}

// stillNotRunning reports whether a container that is noted not to run wasn't started since.
func (n note) stillNotRunning(s *container.State) bool {
	return n.NotRunning != nil && !s.Running && !s.Restarting && s.StartedAt == n.NotRunning.Began
}

// unstarted makes sure that a container that was captured while it didn't run wasn't started
// since: what it did would be lost.
func (s *stopper) unstarted(ctx context.Context, n note) error {
	if n.NotRunning == nil {
		return nil
	}
	got, err := s.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})
	if missing(err) {
		return nil
	}
	if err != nil {
		return s.engine.failed("inspect the container of session "+n.Name.String(), err)
	}
	if c := &got.Container; !n.stillNotRunning(c.State) {
		return &driver.Error{Kind: driver.Transient, Text: fmt.Sprintf("suspend session %s: its container %s was started by someone else", n.Name, c.Name[1:]), Hint: "stop it if what it does may be lost"}
	}
	return nil
}
