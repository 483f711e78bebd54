package shim

import (
	"context"
	"fmt"
	"io"
	"net"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/workers/driver"
)

// lookersMost bounds how many watch the main command's terminal by shares at a time.
const lookersMost = 128

var errManyLook = &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("%d watch this terminal, the most that may", lookersMost)}

// lookOn carries the terminal to a client that watches by a share. What that client sends is read and dropped: it types
// nothing, doesn't change the terminal's size, and is no client that has the shim answer what a program asks of its terminal.
func (v *clients) lookOn(ctx context.Context, c net.Conn, r attach.Request) error {
	w := v.tree.main.shown
	if w == nil {
		return fmt.Errorf("session %s has no terminal", v.name)
	}
	defer v.lookers.Add(-1)
	if v.lookers.Add(1) > lookersMost {
		return fmt.Errorf("session %s: %w", v.name, errManyLook)
	}
	s := &watcher{shown: w, conn: c}
	if err := s.begin(attach.Request{Seen: r.Seen}, 0); err != nil {
		return nil // the client is gone
	}
	return v.converseBy(ctx, c, v.tree.main, s.send, func(context.Context) { _, _ = io.Copy(io.Discard, c) })
}
