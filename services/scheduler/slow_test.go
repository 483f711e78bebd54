package scheduler_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/scheduler"
)

// A scheduler that reads slowly takes no session for idle whose activity the stream has, however
// long the silence seems to it; when it has caught up, graces go by what was heard.
func TestASlowReaderSuspendsNoneInUse(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var gate sync.RWMutex // locked while nothing is heard
	unlock := sync.OnceFunc(gate.Unlock)
	s := scheduler.New(scheduler.Options{
		JS: b.js, Names: stream.NamesWith(""), Records: b.records, Actor: "scheduler@h", Log: slog.New(slog.NewTextHandler(b.logged, nil)),
		Heard: func(stream.Heard) { gate.RLock(); defer gate.RUnlock() },
	})
	ctx, cancel := context.WithCancel(b.ctx)
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	<-s.Ready()
	b.scheduler = s
	const grace = 3 * time.Second
	b.run(work, grace)
	idle := schemas.Name{Tenant: "default", Session: "idle"}
	b.run(idle, grace)
	gate.Lock()
	defer unlock()
	var last time.Time
	for began := time.Now(); time.Since(began) < grace+time.Second; time.Sleep(grace / 20) {
		last = b.say(work, schemas.KindInput, "", schemas.Activity{})
	}
	for _, n := range []schemas.Name{work, idle} {
		if v, err := b.records.Get(b.ctx, n); err != nil || v.State != schemas.Running {
			t.Errorf("while nothing is heard session %s is %s: %s, %v", n, v.State, v.Transition.Reason, err)
		}
	}
	b.explained(work, func(e schemas.Explanation) bool { return e.IdleSeconds > grace.Seconds() })
	for deadline := time.Now().Add(limit); b.logged.with("is heard late") == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it isn't logged that activity is heard late")
		}
	}
	unlock()
	b.until(idle, schemas.Suspending)
	b.until(work, schemas.Suspending)
	if quiet := time.Since(last); quiet < grace {
		t.Errorf("suspended %v after it was used, its grace is %v", quiet, grace)
	}
}
