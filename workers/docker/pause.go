package docker

import (
	"context"
	"errors"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/workers/driver"
)

// pauser pauses the containers of sessions for a capture, and lets them run on.
type pauser struct {
	engine *engine
	notes  *notes
	states *states
	gates  *gates
}

// pause pauses the container. It notes before that the driver does.
func (p *pauser) pause(ctx context.Context, n *note, c *container.InspectResponse) error {
	if n.Phase == frozen && c.State.Paused {
		return nil
	}
	gate := p.gates.gate(n.UID)
	if err := pass(ctx, gate.TryLock); err != nil { // a copy into it is finished first
		return err
	}
	defer gate.Unlock()
	n.Phase, n.Paused = frozen, c.State.Paused
	if !n.stillNotRunning(c.State) { // it was started since
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

// unpause lets the container run on, unless someone else had paused it.
func (p *pauser) unpause(ctx context.Context, n note) error {
	if !n.Paused {
		got, err := p.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})
		if err == nil && got.Container.State.Paused {
			_, err = p.engine.ContainerUnpause(ctx, n.Container, client.ContainerUnpauseOptions{})
		}
		if err != nil && !missing(err) {
			return p.engine.failed("unpause the container of session "+n.Name.String(), err)
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

// If the engine is about to start a command in a container when that is paused, for example a
// health check, the command never starts. Then the engine answers no request about the container
// until it gives the command up, which takes half a minute for a health check. So a container is
// paused between two health checks.
const (
	probesWait  = 5 * time.Second // health checks may follow one another
	probesEvery = 5 * time.Millisecond
)

// betweenProbes waits until no command is being started in a container, for probesWait at most.
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

// startsOne reports whether a command is being started in a container, or was started just now.
func (p *pauser) startsOne(ctx context.Context, id string) (bool, error) {
	got, err := p.engine.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if missing(err) {
		return false, nil // pausing it reports that
	}
	if err != nil {
		return false, p.engine.failed("inspect the container to be paused", err)
	}
	for _, e := range got.Container.ExecIDs {
		x, err := p.engine.ExecInspect(ctx, e, client.ExecInspectOptions{})
		if err == nil && x.Running && !waitedFor(x.PID, 0) {
			return true, nil
		}
	}
	return false, nil
}
