package tunnel

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// dialLimit ends a dial whose context has no deadline. A listener answers at
// once, whether its connection is accepted or not.
const dialLimit = 20 * time.Second

// askAgain is how long a request may stay unanswered before it is repeated.
const askAgain = time.Second

// Dial opens a connection to the listener on subject, and hands it hello,
// which must fit one message of the server (1 MiB usually). The context ends the
// dial, not the connection. It fails with ErrNoListener when there is none,
// with ErrAborted when the listener refuses, and with the context's error.
func Dial(ctx context.Context, nc *nats.Conn, subject string, hello []byte) (*Conn, error) {
	return dial(ctx, nc, subject, hello, usualTempo())
}

func dial(ctx context.Context, nc *nats.Conn, subject string, hello []byte, t tempo) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	c := newConn(&natsWire{nc: nc}, nc.NewInbox(), hello, t)
	if err := c.handshake(ctx, subject); err != nil {
		// The listener's end, if there is one, finds no peer at its first message.
		_ = c.Close()
		return nil, fmt.Errorf("dial %s: %w", subject, err)
	}
	return c, nil
}

// handshake asks until a listener has answered. A request may be lost, for
// instance to a listener that has just died and whose subscription the server
// still has.
func (c *Conn) handshake(ctx context.Context, subject string) error {
	c.mu.Lock()
	err := c.subscribe()
	c.mu.Unlock()
	if err != nil {
		return err
	}
	again := time.NewTicker(askAgain)
	defer again.Stop()
	for {
		if err := c.wire.send(subject, c.local, append([]byte(magic), c.hello...)); err != nil {
			return err
		}
		select {
		case <-c.opened:
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.failure
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("no answer: %w", ctx.Err())
		}
	}
}
