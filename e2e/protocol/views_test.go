package protocol_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/schemas"
)

// cutter dials for a client whose connection can be cut.
type cutter struct {
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

func (c *cutter) Dial(network, address string) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		return nil, errors.New("the connection is cut")
	}
	conn, err := net.Dial(network, address)
	c.conns = append(c.conns, conn)
	return conn, err
}

func (c *cutter) set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut = cut; cut {
		for _, conn := range c.conns {
			_ = conn.Close()
		}
		c.conns = nil
	}
}

// viewsOf takes views until one is as wanted, and gives it with how many came.
func viewsOf(t *testing.T, views <-chan schemas.View, what string, ok func(schemas.View) bool) (v schemas.View, n int) {
	t.Helper()
	for end := time.After(limit); ; {
		select {
		case v = <-views:
			if n++; ok(v) {
				return v, n
			}
		case <-end:
			t.Fatalf("not shown: %s; the last was %s %s", what, v.Name, v.State)
		}
	}
}

// A watcher sees what a list shows as it changes, once each, and what it missed while
// its connection was lost.
func TestWatchSessions(t *testing.T) {
	h := start(t)
	h.run("early")
	line := &cutter{}
	c, err := events.Connect(events.Options{URL: h.server.ClientURL(), By: "watcher", NATS: []nats.Option{
		nats.SetCustomDialer(line), nats.ReconnectWait(10 * time.Millisecond),
	}})
	h.must(err)
	defer func() { h.must(c.Close()) }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	views, ended := make(chan schemas.View, 1000), make(chan error, 1)
	go func() { ended <- c.WatchSessions(ctx, "*", func(v schemas.View) { views <- v }) }()
	is := func(name string, s schemas.State) func(schemas.View) bool {
		return func(v schemas.View) bool { return v.Name == name && v.State == s && v.Op == "" }
	}
	viewsOf(t, views, "what is there", is("early", schemas.Running))
	h.run("work")
	if v, _ := viewsOf(t, views, "what began", is("work", schemas.Running)); v.PID == 0 {
		t.Error("what runs is shown without its pid")
	}
	h.do("suspend", schemas.Request{Name: "work"})
	v, _ := viewsOf(t, views, "what was suspended", is("work", schemas.Suspended))
	if v.Pause == nil || v.Pause.Reason != schemas.PauseManual || v.StoredBytes < v.Snapshot.StoredBytes {
		t.Errorf("suspended, it is shown as %+v", v)
	}

	line.set(true)
	h.do("rm", schemas.Request{Name: "work"})
	h.run("late")
	line.set(false)
	seen := map[string]schemas.State{}
	viewsOf(t, views, "what was missed", func(v schemas.View) bool {
		seen[v.Name] = v.State
		return seen["work"] == schemas.Deleted && seen["late"] == schemas.Running
	})

	// While no Diapause answers it waits.
	h.api.end(t)
	h.sched.end(t)
	n, err := schemas.ParseName("late")
	h.must(err)
	_, err = h.records.Update(h.ctx, n, func(schemas.SessionRecord) (schemas.Transition, bool, error) {
		return schemas.Transition{Type: schemas.TIdleRule, Reason: "a test", Actor: "test", Set: schemas.Set{Idle: &schemas.Idle{Never: true}}}, true, nil
	})
	h.must(err)
	h.beginServices()
	viewsOf(t, views, "what changed meanwhile", func(v schemas.View) bool { return v.LastTransition.Type == schemas.TIdleRule })
	cancel()
	h.must(<-ended)
	if err := c.WatchSessions(t.Context(), "a b", nil); err == nil {
		t.Error("a name with a space is watched")
	}
}

// Many changes of a session in a short time are shown once.
func TestWatchSessionsCoalesces(t *testing.T) {
	h := start(t)
	h.run("work")
	c := events.New(h.client, events.Options{By: "watcher"})
	defer func() { h.must(c.Close()) }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	views := make(chan schemas.View, 1000)
	ended := make(chan error, 1)
	go func() { ended <- c.WatchSessions(ctx, "work", func(v schemas.View) { views <- v }) }()
	viewsOf(t, views, "what is there", func(v schemas.View) bool { return v.State == schemas.Running })
	n, err := schemas.ParseName("work")
	h.must(err)
	const changes = 200
	var last uint64
	for i := range changes {
		v, err := h.records.Update(h.ctx, n, func(schemas.SessionRecord) (schemas.Transition, bool, error) {
			return schemas.Transition{Type: schemas.TIdleRule, Reason: "a test", Actor: "test", Set: schemas.Set{Idle: &schemas.Idle{Grace: int64(60_000 + i)}}}, true, nil
		})
		h.must(err)
		last = v.Version
	}
	if _, shown := viewsOf(t, views, "the last", func(v schemas.View) bool { return v.Version >= last }); shown >= changes {
		t.Errorf("%d changes were shown %d times", changes, shown)
	}
	cancel()
	h.must(<-ended)
}
