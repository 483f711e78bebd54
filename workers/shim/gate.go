package shim

import (
	"context"
	"errors"
	"sync"
)

var errEnded = errors.New("the session has ended")

// gate keeps input and new commands out of a session while it is captured.
type gate struct {
	mu      sync.Mutex
	inside  int
	closed  bool
	ended   bool
	changed chan struct{}
}

func newGate() *gate { return &gate{changed: make(chan struct{})} }

func (g *gate) signal() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// enter waits until the gate is open. Its caller must call leave soon.
func (g *gate) enter(ctx context.Context) error {
	return g.await(ctx, func() bool { return !g.closed }, func() { g.inside++ })
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	g.signal()
}

// close closes the gate and waits until all that entered have left.
func (g *gate) close(ctx context.Context) error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	err := g.await(ctx, func() bool { return g.inside == 0 }, func() {})
	if err != nil {
		g.open()
	}
	return err
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = false
	g.signal()
}

// end makes all waits and later calls fail with errEnded.
func (g *gate) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	g.signal()
}

func (g *gate) await(ctx context.Context, ready func() bool, then func()) error {
	for {
		g.mu.Lock()
		if g.ended {
			g.mu.Unlock()
			return errEnded
		}
		if ready() {
			then()
			g.mu.Unlock()
			return nil
		}
		wait := g.changed
		g.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
