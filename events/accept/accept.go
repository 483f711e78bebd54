// Package accept takes the connections of a listener, for all that serve one. A listener that fails
// for a while, as it does when the process or the machine has too many files open, is asked again after
// a pause and not in a circle.
package accept

import (
	"context"
	"errors"
	"net"
	"time"
)

// Pause is the time between a failure and the next try.
const Pause = 100 * time.Millisecond

// Each gives serve each connection that take, a listener's Accept, returns. It ends when the listener
// is closed or ctx ends; what take returns after ctx has ended is closed. failed is told of every
// failure but that end, and may be nil. serve is called in the caller's goroutine: it must not wait.
func Each[C net.Conn](ctx context.Context, take func() (C, error), serve func(C), failed func(error)) {
	for {
		c, err := take()
		switch {
		case err == nil && ctx.Err() != nil:
			c.Close()
			return
		case err == nil:
			serve(c)
			continue
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return
		}
		if failed != nil {
			failed(err)
		}
		pause := time.NewTimer(Pause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return
		}
	}
}
