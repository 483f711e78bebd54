package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/schemas"
)

// PlaceKept is how long a place is kept for a requester that doesn't confirm it.
const PlaceKept = 5 * time.Minute

// Place asks for a place on a host, or says that it is asked for no more.
func (p Publisher) Place(ctx context.Context, n Names, place schemas.Place) error {
	return p.publish(ctx, n.PlaceSubject(place.Host, place.ID), place)
}

// Places calls fn with what was said last of every place, then with what comes, in the
// order of the stream, until ctx ends. What can't be read is left out.
func Places(ctx context.Context, js jetstream.JetStream, n Names, fn func(schemas.Place)) error {
	s, err := js.Stream(ctx, "KV_"+n.Places())
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find bucket %s: %w", n.Places(), err)
	}
	cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy}
	return Consume(ctx, js, s, cfg, func(msg *nats.Msg, _ *jetstream.MsgMetadata, _ bool) error {
		var p schemas.Place
		if json.Unmarshal(msg.Data, &p) == nil && p.ID != "" && p.Host != "" {
			fn(p)
		}
		return nil
	}, func() {}, func() {})
}

// ClaimPort claims a port of all hosts for PlaceKept, for a session that is made meanwhile. It gives false if
// another has claimed it.
func (p Publisher) ClaimPort(ctx context.Context, n Names, port uint16) (bool, error) {
	_, err := p.JS.Publish(ctx, n.portSubject(port), []byte("{}"), jetstream.WithExpectLastSequencePerSubject(0))
	var refused *jetstream.APIError
	switch {
	case err == nil:
		return true, nil
	case errors.As(err, &refused) && (refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant):
		return false, nil
	}
	return false, fmt.Errorf("claim port %d: %w", port, err)
}
