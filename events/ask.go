package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/schemas"
)

// What a caller can act on besides *schemas.APIError, which the API answers; match
// with errors.Is.
var (
	// ErrDenied: the credentials don't allow to ask.
	ErrDenied = errors.New("the server doesn't let this client ask; it needs credentials that do (Options.Creds)")
	// ErrNobody: no Diapause answers on this server.
	ErrNobody = errors.New("no Diapause answers on this NATS server")
)

// askLimit is how long an answer may take if the context has no deadline.
const askLimit = 2 * time.Minute

// Ensure has the session running, resumed if need be, and waits for it until ctx
// ends. It counts as use. Because gives the reason, which its history keeps if it had to be
// resumed. An error of the API is a *schemas.APIError.
func (s Session) Ensure(ctx context.Context, how ...How) (schemas.View, error) {
	var a schemas.Activity
	for _, h := range how {
		h(&a)
	}
	return s.ask(ctx, "ensure", schemas.Request{Reason: a.Reason})
}

// Suspend writes the session's image and frees its memory; reason is for its
// history.
func (s Session) Suspend(ctx context.Context, reason string) (schemas.View, error) {
	return s.ask(ctx, "suspend", schemas.Request{Reason: reason})
}

// Checkpoint takes a snapshot, the session running on. Description and run id are
// kept with it, and may be empty.
func (s Session) Checkpoint(ctx context.Context, description, runID string) (schemas.View, error) {
	return s.ask(ctx, "checkpoint", schemas.Request{Description: description, RunID: runID})
}

// Show gives what is known of the session. Looking is never activity.
func (s Session) Show(ctx context.Context) (schemas.View, error) {
	return s.ask(ctx, "show", schemas.Request{})
}

func (s Session) ask(ctx context.Context, verb string, req schemas.Request) (v schemas.View, err error) {
	ctx, cancel := s.c.unlessDenied(ctx)
	defer cancel()
	end, _ := ctx.Deadline()
	req.Name, req.Actor, req.Wait = s.name.String(), s.c.by, schemas.Duration(time.Until(end))
	data, err := json.Marshal(req)
	if err != nil {
		return v, fmt.Errorf("encode the request: %w", err)
	}
	answer, err := s.c.nc.RequestWithContext(ctx, schemas.SubjectAPI+"."+verb, data)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return v, fmt.Errorf("%s session %s: %w", verb, s.name, ErrNobody)
	case err != nil && errors.Is(context.Cause(ctx), ErrDenied):
		return v, fmt.Errorf("%s session %s: %w", verb, s.name, context.Cause(ctx))
	case err != nil:
		return v, fmt.Errorf("%s session %s: %w", verb, s.name, err)
	}
	return v, ReadAnswer(answer, &v)
}

// unlessDenied is a context with a deadline that ends when the server refuses to
// let this client ask: the question itself would only go unanswered.
func (c *Client) unlessDenied(ctx context.Context) (context.Context, func()) {
	ctx, stop := context.WithTimeout(ctx, askLimit)
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case err := <-c.denied:
			cancel(fmt.Errorf("%w (%w)", ErrDenied, err))
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil); stop(); <-ended }
}
