package stream

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/schemas"
)

// malformedAtOnce bounds those that wait to be counted; beyond it the client drops them.
const malformedAtOnce = 1024

// Malformed calls fn, until ctx ends, for messages that were meant as activity and that
// the stream doesn't take, since their subjects are too short. They are reported to
// explain why they have no effect. The stream takes subjects with enough tokens.
func Malformed(ctx context.Context, js jetstream.JetStream, fn func(Heard)) error {
	js, end, err := Apart(js)
	if err != nil {
		return unless(ctx, err)
	}
	defer end()
	nc := js.Conn()
	messages := make(chan *nats.Msg, malformedAtOnce)
	for _, subject := range []string{schemas.SubjectActivity + ".*", schemas.SubjectActivity + ".*.*"} {
		sub, err := nc.ChanSubscribe(subject, messages)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("listen on %s: %w", subject, err)
		}
		defer func() { _ = sub.Unsubscribe() }() // of a connection that is closed: nothing to do
	}
	for {
		select {
		case m := <-messages:
			_, err := schemas.ParseActivitySubject(m.Subject)
			fn(Heard{Bad: err})
		case <-ctx.Done():
			return nil
		}
	}
}
