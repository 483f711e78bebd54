package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"sync"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/workers/driver"
)

// lookers are the clients that watch the main command's terminal by a share. They are no typists and don't count as
// watchers of what the terminal shows: nothing of the session depends on them.
type lookers struct {
	mu    sync.Mutex
	count map[string]int // by share
	all   int
}

// lookersMost bounds how many watch at a time.
const lookersMost = 128

var errManyLook = &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("%d watch this terminal, the most that may", lookersMost)}

// come counts one more.
func (l *lookers) come(share string) (leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= lookersMost {
		return nil, errManyLook
	}
	if l.count == nil {
		l.count = map[string]int{}
	}
	l.count[share]++
	l.all++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all--
		if l.count[share]--; l.count[share] == 0 {
			delete(l.count, share)
		}
	}, nil
}

// watching says how many watch, by share; nil if none does.
func (l *lookers) watching() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.count) == 0 {
		return nil
	}
	return maps.Clone(l.count)
}

// lookOn carries the terminal to a client that watches by a share. What that client sends is read and dropped: it types
// nothing, doesn't change the terminal's size, and has nothing answered that a program asks of its terminal.
func (v *clients) lookOn(ctx context.Context, c net.Conn, r attach.Request) error {
	w := v.tree.main.shown
	if w == nil {
		return fmt.Errorf("session %s has no terminal", v.name)
	}
	if r.Share == "" {
		return errors.New("the request names no share")
	}
	leave, err := v.lookers.come(r.Share)
	if err != nil {
		return fmt.Errorf("session %s: %w", v.name, err)
	}
	defer leave()
	s := &watcher{shown: w, conn: c}
	if err := s.begin(attach.Request{Seen: r.Seen}, 0); err != nil {
		return nil // the client is gone
	}
	return v.converseBy(ctx, c, v.tree.main, s.send, func(context.Context) { _, _ = io.Copy(io.Discard, c) })
}
