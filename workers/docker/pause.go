package docker

import (
	"context"
	"errors"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/workers/driver"
)

// pauser freezes the containers of sessions for a capture, and thaws them.
type pauser struct {
	engine *engine
	notes  *notes
	states *states
	gates  *gates
}

// pause freezes the container, and notes before that it is we who do.
func (p *pauser) pause(ctx context.Context, n *note, c *container.InspectResponse) error {
	if n.Phase == frozen && c.State.Paused {
		return nil
	}
	gate := p.gates.gate(n.UID)
	if err := pass(ctx, gate.TryLock); err != nil { // what is being copied into it comes first
		return err
	}
	defer gate.Unlock()
	n.Phase, n.Paused = frozen, c.State.Paused
	if !n.stillNotRunning(c.State) { // somebody has started it
		n.NotRunning = nil
	}
	if err := p.notes.write(*n); err != nil {
		return err
	}
	if n.Paused || n.stillNotRunning(c.State) {
		return nil
	}
	if err := p.betweenProbes(ctx, n.Container); err != nil {
		undo, done := undoing(ctx)
		defer done()
		return errors.Join(err, p.unpause(undo, *n))
	}
	if err := p.engine.pauseContainer(ctx, n.Container); err != nil {
		undo, done := undoing(ctx)
		defer done()
		return errors.Join(p.engine.failed("pause the container of session "+n.Name.String(), err), p.unpause(undo, *n))
	}
	return nil
}

// unpause lets the container run on, unless somebody else had paused it.
func (p *pauser) unpause(ctx context.Context, n note) error {
	if !n.Paused {
		got, err := p.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})
		if err == nil && got.Container.State.Paused {
			_, err = p.engine.ContainerUnpause(ctx, n.Container, client.ContainerUnpauseOptions{})
		}
		if err != nil && !missing(err) {
			return p.engine.failed("let the container of session "+n.Name.String()+" go on", err)
		}
	}
	n.Phase, n.Paused = here, false
	return p.notes.write(n)
}

// thaw implements driver.Driver.
func (p *pauser) thaw(ctx context.Context, f driver.Fence) error {
	n, err := p.notes.pass(f)
	if err != nil {
		return err
	}
	if _, err := p.states.find(ctx, n); err != nil {
		return err
	}
	if n.Phase != frozen {
		return nil
	}
	if err := leased(f); err != nil {
		return err
	}
	return p.unpause(ctx, n)
}

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
func (p *pauser) betweenProbes(ctx context.Context, id string) error {
	for end := time.Now().Add(probesWait); time.Now().Before(end); {
		young, err := p.startsOne(ctx, id)
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

// startsOne reports whether a command is being started in a container, or was just now.
func (p *pauser) startsOne(ctx context.Context, id string) (bool, error) {
	got, err := p.engine.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if missing(err) {
		return false, nil // which the pause says, too
	}
	if err != nil {
		return false, p.engine.failed("look at the container that is to be paused", err)
	}
	for _, e := range got.Container.ExecIDs {
		x, err := p.engine.ExecInspect(ctx, e, client.ExecInspectOptions{})
		if err == nil && x.Running && !waitedFor(x.PID, 0) {
			return true, nil
		}
	}
	return false, nil
}
