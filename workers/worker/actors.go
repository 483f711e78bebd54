package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/diapause/diapause/schemas"
)

// actors runs one goroutine per session that has work. Waking a session whose actor is busy
// makes the actor look at the record once more when it is done.
type actors struct {
	drive func(context.Context, schemas.Name) error
	log   *slog.Logger

	mu      sync.Mutex
	busy    map[schemas.Name]bool // value: woken since it last looked
	ctx     context.Context       // of serve; nil before
	waiting map[schemas.Name]bool // woken before serve
	wg      sync.WaitGroup
}

func newActors(drive func(context.Context, schemas.Name) error, log *slog.Logger) *actors {
	return &actors{drive: drive, log: log, busy: map[schemas.Name]bool{}, waiting: map[schemas.Name]bool{}}
}

// serve lets the actors work until ctx ends and all have stopped.
func (a *actors) serve(ctx context.Context) error {
	a.mu.Lock()
	a.ctx = ctx
	for n := range a.waiting {
		a.start(n)
	}
	clear(a.waiting)
	a.mu.Unlock()
	<-ctx.Done()
	a.mu.Lock()
	a.ctx = nil
	a.mu.Unlock()
	a.wg.Wait()
	return nil
}

// wake makes the session's actor look at its record.
func (a *actors) wake(n schemas.Name) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.busy[n]; ok {
		a.busy[n] = true
		return
	}
	if a.ctx == nil {
		a.waiting[n] = true
		return
	}
	a.start(n)
}

// start runs an actor. Callers hold mu.
func (a *actors) start(n schemas.Name) {
	a.busy[n] = false
	a.wg.Add(1)
	go a.run(a.ctx, n)
}

// The pauses of an actor whose work fails.
const (
	firstPause = 200 * time.Millisecond
	maxPause   = 5 * time.Second
)

func (a *actors) run(ctx context.Context, n schemas.Name) {
	defer a.wg.Done()
	pause := firstPause
	for {
		err := a.drive(ctx, n)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			a.log.Error("could not do what a record asks; trying again", "session", n.String(), "err", err, "in", pause)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
			pause = min(2*pause, maxPause)
			continue
		}
		pause = firstPause
		a.mu.Lock()
		again := a.busy[n]
		if a.busy[n] = false; !again {
			delete(a.busy, n)
			a.mu.Unlock()
			return
		}
		a.mu.Unlock()
	}
}

func (a *actors) working() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.busy) + len(a.waiting)
}
