package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/schemas"
)

// Watch calls fn, from the caller's goroutine, with every revision of a session's
// record as it is written, until ctx ends: the transition that made it says what
// happened, by whom and why. Which sessions: "acme/web-42", "acme/*" or "*/*", as
// far as the credentials allow. What is written while there is no connection, or faster
// than fn takes it, is missed: Version has no gaps, so a gap shows. For a full account
// read the log (`diapause history`, `diapause audit`).
func (c *Client) Watch(ctx context.Context, which string, fn func(schemas.SessionRecord)) error {
	tenant, id, err := scope(which)
	if err != nil {
		return err
	}
	return watch(ctx, c, schemas.SubjectSession+"."+tenant+"."+id, fn)
}

// WatchEvents does the same with what happens without changing a session's state:
// warnings, deferrals, deletions of images.
func (c *Client) WatchEvents(ctx context.Context, which string, fn func(schemas.Event)) error {
	tenant, id, err := scope(which)
	if err != nil {
		return err
	}
	return watch(ctx, c, schemas.SubjectEvent+"."+tenant+"."+id+".*", fn)
}

// scope reads which sessions are meant.
func scope(which string) (tenant, id string, err error) {
	tenant, id, ok := strings.Cut(which, "/")
	if !ok {
		tenant, id = string(schemas.DefaultTenant), which
	}
	for _, part := range []string{tenant, id} {
		if part != "*" && !schemas.ValidToken(part) {
			return "", "", fmt.Errorf("watch %q: want \"tenant/id\", \"tenant/*\" or \"*/*\"", which)
		}
	}
	return tenant, id, nil
}

func watch[T any](ctx context.Context, c *Client, subject string, fn func(T)) error {
	sub, err := c.nc.SubscribeSync(subject)
	if err != nil {
		return fmt.Errorf("watch %s: %w", subject, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // of a connection that is closed: nothing to do
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, nats.ErrSlowConsumer) {
			continue // told to OnError; what was missed shows by its version
		}
		if err != nil {
			return fmt.Errorf("watch %s: %w", subject, err)
		}
		var v T
		if err := json.Unmarshal(m.Data, &v); err != nil {
			c.tell(fmt.Errorf("read what came on %s: %w", m.Subject, err))
			continue
		}
		fn(v)
	}
}
