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
	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/workers/docker"
	"github.com/diapause/diapause/workers/worker"
)

// Adopt fills in what asks for a session of a container that is there.
func Adopt(r schemas.RunRequest, d dockerspec.Options) *schemas.RunRequest {
	data, err := json.Marshal(dockerspec.With(schemas.Spec{}, d))
	if err != nil {
		data = nil // of plain fields: it can't be
	}
	r.Driver, r.Program, r.Spec = docker.Name, d.Container, data
	return &r
}

// adoptLabelled makes sessions of the containers that ask for it by their labels, until
// ctx ends.
func adoptLabelled(ctx context.Context, w *worker.Worker, d *docker.Driver, nc *nats.Conn, log *slog.Logger) error {
	select {
	case <-w.Ready():
	case <-ctx.Done():
	}
	for c := range d.Labelled(ctx) {
		r := Adopt(schemas.RunRequest{Class: c.Class, Host: w.Host}, dockerspec.Options{Container: c.ID, Remove: c.Remove})
		r.Program = c.Name
		err := askOn(ctx, nc, "run", schemas.Request{
			Name: c.Session, Run: r, Actor: "docker@" + string(w.Host), Reason: "its label " + c.Label + " asks for it", Wait: schemas.Duration(adoptWait),
		})
		if err != nil && ctx.Err() == nil {
			log.Warn("a container that asks for it by its label is not made a session", "container", c.Name, "session", c.Session, "err", err)
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
