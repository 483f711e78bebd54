package events

import (
	"context"

	"github.com/diapause/diapause/schemas"
)

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
	req.Name = s.name.String()
	return v, s.c.api.Ask(ctx, verb, req, &v)
}

// API gives what asks all verbs, over the connection of this client.
func (c *Client) API() *API { return c.api }
