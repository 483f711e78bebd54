package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// states gives the states of sessions, from their notes and from the engine.
type states struct {
	engine  *engine
	notes   *notes
	absence *absence
}

// inspect implements driver.Driver.
func (s *states) inspect(ctx context.Context, uid schemas.UID) (driver.Instance, error) {
	n, err := s.notes.read(uid)
	if err != nil {
		return driver.Instance{}, err
	}
	i, _, err := s.instance(ctx, n)
	return i, err
}

// instance gives the state of a session, and its container if there is one.
func (s *states) instance(ctx context.Context, n note) (driver.Instance, *container.InspectResponse, error) {
	if n.Phase != here && n.Phase != frozen {
		return driver.Instance{}, nil, driver.ErrNotHere
	}
	i := driver.Instance{UID: n.UID, Name: n.Name, Epoch: n.Epoch, Started: n.Began}
	got, err := s.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})
	if missing(err) || err == nil && takenAway(&got.Container) {
		i.State, i.Exit = driver.Exited, &schemas.ExitStatus{Code: 137, Signal: 9, Reason: "its container was removed by someone else"}
		if i.Lost = !n.Remove && !n.Ending; i.Lost && !n.Adopted { // of an adopted one the engine removes those volumes
			i.Exit.Reason += " (its volumes are kept until `diapause rm`, or until a snapshot replaces what they hold)"
		}
		return i, nil, nil
	}
	if err != nil {
		return i, nil, s.engine.failed("inspect the container of session "+n.Name.String(), err)
	}
	c := &got.Container
	if neverRan(c) && n.NotRunning == nil {
		return driver.Instance{}, c, driver.ErrNotHere
	}
	if describe(&i, n, c.State); i.State != driver.Exited {
		return i, c, nil
	}
	if cut, err := s.endedWithEngine(ctx, c); err != nil || !cut {
		return i, c, err
	}
	got, err = s.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{}) // as of the engine that answers now
	if err != nil {
		return i, nil, s.engine.failed("inspect the container of session "+n.Name.String(), err)
	}
	c = &got.Container
	if describe(&i, n, c.State); i.State == driver.Exited {
		i.Lost, i.Exit.Reason = true, "the Docker engine was stopped, and its container with it, which is kept for `diapause resume --clean`"
	} else {
		i.Exit = nil
	}
	return i, c, nil
}

// takenAway reports whether the engine is removing a container that doesn't run, for another reason
// than its end.
func takenAway(c *container.InspectResponse) bool {
	s := c.State
	return !s.Running && (s.Dead || s.Status == container.StateRemoving) && !c.HostConfig.AutoRemove
}

// neverRan reports whether a container was never started.
func neverRan(c *container.InspectResponse) bool {
	began, err := time.Parse(time.RFC3339Nano, c.State.StartedAt)
	return err == nil && began.Year() <= 1
}

func describe(i *driver.Instance, n note, s *container.State) {
	switch {
	case s.Paused && n.Phase == frozen:
		i.State, i.PID = driver.Frozen, s.Pid
	case s.Running || s.Restarting: // paused by someone else counts as running
		i.State, i.PID = driver.Running, s.Pid
	case n.stillNotRunning(s) && n.Phase == frozen:
		i.State = driver.Frozen
	case n.stillNotRunning(s): // so does one that is noted not to run
		i.State = driver.Running
	default:
		i.State = driver.Exited
		i.Exit = &schemas.ExitStatus{Code: s.ExitCode}
		if s.ExitCode > 128 && s.ExitCode < 128+65 {
			i.Exit.Signal = s.ExitCode - 128
		}
		if s.OOMKilled {
			i.Exit.Reason = "out of memory"
		}
	}
}

// find gives the container of a session that hasn't ended.
func (s *states) find(ctx context.Context, n note) (*container.InspectResponse, error) {
	i, c, err := s.instance(ctx, n)
	if errors.Is(err, driver.ErrNotHere) {
		return nil, fmt.Errorf("session %s: %w", n.Name, driver.ErrNotHere)
	}
	if err != nil {
		return nil, err
	}
	if i.State == driver.Exited {
		why := fmt.Sprintf("with status %d", i.Exit.Code)
		if i.Exit.Reason != "" {
			why = i.Exit.Reason
		}
		return nil, &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("the container of session %s has ended: %s", n.Name, why), Err: driver.ErrNotHere}
	}
	return c, nil
}
