package shim

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestGate(t *testing.T) {
	g := newGate()
	ctx := context.Background()
	if err := g.enter(ctx); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- g.close(ctx) }()
	// One that comes once it is shut waits, and one that is inside is waited for.
	soon, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	for g.enter(soon) == nil {
		g.leave()
	}
	select {
	case <-closed:
		t.Error("the gate is closed with someone inside")
	default:
	}
	g.leave()
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	entered := make(chan error, 2)
	go func() { entered <- g.enter(ctx) }()
	g.open()
	if err := <-entered; err != nil {
		t.Error(err)
	}
	g.leave()
	if err := g.close(ctx); err != nil {
		t.Fatal(err)
	}
	go func() { entered <- g.enter(ctx) }()
	g.end()
	if err := <-entered; !errors.Is(err, errEnded) {
		t.Errorf("at the end a waiting one gets %v", err)
	}
}
