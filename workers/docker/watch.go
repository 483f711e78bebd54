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

// watchPause is the time between two tries to reach an engine that is away.
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

// watchOnce reports the sessions that have ended, and that end, until the engine goes away.
func (w *watcher) watchOnce(ctx context.Context, out chan<- driver.Instance) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	asked := time.Now()
	if err := w.engine.ping(ctx); err != nil {
		if ctx.Err() == nil {
			w.absence.begin(asked, asked)
		}
		return
	}
	w.absence.end(asked, asked)
	seen := w.engine.Events(ctx, client.EventsListOptions{
		Filters: client.Filters{}.Add("type", string(events.ContainerEventType)).Add("event", string(events.ActionDie), string(events.ActionDestroy)),
	})
	containers := make(chan event, eventsAhead)
	go w.hear(ctx, seen, containers)
	if w.tellEnded(ctx, "", out) != nil {
		return
	}
	for c := range containers {
		asked := time.Now()
		if err := w.tellEnded(ctx, c.container, out); err != nil {
			if driver.KindOf(err) == driver.Transient && ctx.Err() == nil { // the engine was stopping by then
				w.absence.begin(asked, c.at)
			}
			return
		}
	}
}

// eventsAhead is how many events are buffered while one is handled, so that the end of the stream is
// noticed meanwhile.
const eventsAhead = 1000

// event is a container that the engine reported, and when. A stopping engine may still report the
// ends of its containers, and answer no more requests about them.
type event struct {
	container string
	at        time.Time
}

// hear passes the engine's events on until the stream ends.
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
				now := time.Now()
				w.absence.begin(now, now)
			}
			return
		}
	}
}

// tellEnded reports the ended sessions of that container, or all of them if it is "".
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
