package accept

import (
	"context"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// conn is a connection that knows whether it was closed.
type conn struct {
	net.Conn
	closed bool
}

func (c *conn) Close() error { c.closed = true; return nil }

// A listener that fails is asked again after a pause, and serves on.
func TestFailuresArePaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []time.Duration
		began, told, served := time.Now(), 0, 0
		take := func() (*conn, error) {
			asked = append(asked, time.Since(began))
			switch len(asked) {
			case 2, 3:
				return nil, syscall.EMFILE
			case 5:
				return nil, net.ErrClosed
			}
			return &conn{}, nil
		}
		Each(t.Context(), take, func(*conn) { served++ }, func(err error) {
			if told++; err != syscall.EMFILE {
				t.Errorf("told of %v", err)
			}
		})
		if served != 2 || told != 2 || asked[3]-asked[0] != 2*Pause || asked[4] != asked[3] {
			t.Errorf("served %d, told of %d failures, asked at %v", served, told, asked)
		}
	})
}

// The end of the context ends a pause, and closes what comes after it.
func TestTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), Pause/2)
		defer cancel()
		began := time.Now()
		Each(ctx, func() (*conn, error) { return nil, syscall.ENFILE }, func(*conn) { t.Error("it serves") }, nil)
		if took := time.Since(began); took != Pause/2 {
			t.Errorf("it ended after %v", took)
		}
		late := &conn{}
		Each(ctx, func() (*conn, error) { return late, nil }, func(*conn) { t.Error("it serves") }, nil)
		if !late.closed {
			t.Error("a connection is left open")
		}
	})
}
