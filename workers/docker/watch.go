package docker

import (
	"context"
	"errors"
	"time"

	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/workers/driver"
)

// watcher reports sessions that end by themselves.
type watcher struct {
	engine  *engine
	notes   *notes
	states  *states
	absence *absence
}

// watchPause is how long is waited before the engine is asked again after it was away.
const watchPause = time.Second

// exits implements driver.Watcher.
func (w *watcher) exits(ctx context.Context) <-chan driver.Instance {
	out := make(chan driver.Instance)
	go func() {
		defer close(out)
		for ctx.Err() == nil {
			w.watchOnce(ctx, out)
			select {
			case <-time.After(watchPause):
			case <-ctx.Done():
			}
		}
	}()
	return out
}

// watchOnce tells of the sessions that have ended, and that end, until the engine goes
// away.
func (w *watcher) watchOnce(ctx context.Context, out chan<- driver.Instance) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := w.engine.ping(ctx); err != nil {
		if ctx.Err() == nil {
			w.absence.begin(time.Now())
		}
		return
	}
	now := time.Now()
	w.absence.end(now, now)
	seen := w.engine.Events(ctx, client.EventsListOptions{
		Filters: client.Filters{}.Add("type", string(events.ContainerEventType)).Add("event", string(events.ActionDie), string(events.ActionDestroy)),
	})
	containers := make(chan event, eventsAhead)
	go w.hear(ctx, seen, containers)
	if w.tellEnded(ctx, "", out) != nil {
		return
	}
	for c := range containers {
		if err := w.tellEnded(ctx, c.container, out); err != nil {
			if driver.KindOf(err) == driver.Transient && ctx.Err() == nil { // it was going away by then
				w.absence.begin(c.at)
			}
			return
		}
	}
}

// eventsAhead bounds how many events wait while one is looked into, so that the end of the
// stream is seen meanwhile.
const eventsAhead = 1000

// said is that an engine told of a container, and when. One that stops may still tell of the
// ends of its containers, and no more of what they are.
type event struct {
	container string
	at        time.Time
}

// hear passes on which containers something is said of, until the stream ends.
func (w *watcher) hear(ctx context.Context, seen client.EventsResult, containers chan<- event) {
	defer close(containers)
	for {
		select {
		case m := <-seen.Messages:
			select {
			case containers <- event{m.Actor.ID, time.Unix(0, m.TimeNano)}:
			case <-ctx.Done():
				return
			}
		case err := <-seen.Err:
			if !errors.Is(err, context.Canceled) {
				w.absence.begin(time.Now())
			}
			return
		}
	}
}

// tellEnded tells of the sessions that have ended: of that container, or all if it is "".
func (w *watcher) tellEnded(ctx context.Context, container string, out chan<- driver.Instance) error {
	all, err := w.notes.all()
	if err != nil {
		return err
	}
	for _, n := range all {
		if container != "" && n.Container != container || n.Phase != here && n.Phase != frozen {
			continue
		}
		i, _, err := w.states.instance(ctx, n)
		if errors.Is(err, driver.ErrNotHere) || err == nil && i.State != driver.Exited {
			continue
		}
		if err != nil {
			return err
		}
		select {
		case out <- i:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
