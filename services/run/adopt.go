package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/worker"
)

// adoptOffered makes sessions of what a driver finds that asks to become one, until ctx ends.
func adoptOffered(ctx context.Context, w *worker.Worker, name schemas.DriverName, d driver.Offerer, nc *nats.Conn, log *slog.Logger) error {
	select {
	case <-w.Ready():
	case <-ctx.Done():
	}
	for o := range d.Offers(ctx) {
		o.Run.Host = w.Host
		err := askOn(ctx, nc, "run", schemas.Request{
			Name: o.Session, Run: &o.Run, Actor: string(name) + "@" + string(w.Host), Reason: o.Asks + " asks for it", Wait: schemas.Duration(adoptWait),
		})
		if err != nil && ctx.Err() == nil {
			log.Warn("make a session of what asks for it", "driver", name, "called", o.Name, "session", o.Session, "err", err)
		}
	}
	return nil
}

// adoptWait is how long making a session of a container may take.
const adoptWait = time.Minute

// askOn asks the API, and waits for it to be there.
func askOn(ctx context.Context, nc *nats.Conn, verb string, req schemas.Request) error {
	data, err := json.Marshal(req)
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, adoptWait)
	defer cancel()
	for {
		msg, err := nc.RequestWithContext(ctx, schemas.SubjectAPI+"."+verb, data)
		if errors.Is(err, nats.ErrNoResponders) { // it is starting
			select {
			case <-time.After(time.Second):
				continue
			case <-ctx.Done():
			}
		}
		if err != nil {
			return fmt.Errorf("ask %q: %w", verb, err)
		}
		return events.ReadAnswer(msg, &schemas.View{})
	}
}
