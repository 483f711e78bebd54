package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// Stream is one that Streams has made or found.
type Stream struct {
	Name     string `json:"name"`
	Replicas int    `json:"replicas"`
}

// A cluster without a leader doesn't answer: leaderTry is how long it is asked for one, and
// streamsTry how long making the streams may take then, before all that is tried again.
const (
	leaderTry    = time.Second
	streamsTry   = 20 * time.Second
	streamsAgain = 200 * time.Millisecond
)

// notClustered is the code of a server's refusal to keep replicas because it is alone.
const notClustered jetstream.ErrorCode = 10074

// Streams makes the streams and buckets of a fleet, or brings those that are there up to
// date, and gives them. Servers that are still finding each other are waited for.
func Streams(ctx context.Context, c StreamsConfig) (made []Stream, err error) {
	ctx, g := guarded(ctx, "making the streams", "system", c.NATS.Creds, c.Log)
	defer func() { err = g.why(ctx, err) }()
	nc, err := connect(ctx, c.NATS, "diapause nats-streams", c.Log, g.option())
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	l, err := newLink(nc)
	if err != nil {
		return nil, err
	}
	if err := c.ensure(ctx, l); err != nil {
		return nil, err
	}
	for _, name := range l.names.Streams() {
		s, err := l.js.Stream(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("find stream %s: %w", name, err)
		}
		made = append(made, Stream{Name: name, Replicas: s.CachedInfo().Config.Replicas})
	}
	return made, nil
}

func (c StreamsConfig) ensure(ctx context.Context, l link) error {
	limit, cancel := context.WithTimeout(ctx, c.Wait)
	defer cancel()
	for {
		err := try(limit, leaderTry, func(ctx context.Context) error {
			_, err := l.js.AccountInfo(ctx)
			return err
		})
		if err == nil {
			err = try(limit, streamsTry, func(ctx context.Context) error { return stream.Ensure(ctx, l.js, l.names, c.Replicas) })
		}
		if refused := new(jetstream.APIError); errors.As(err, &refused) && refused.ErrorCode == notClustered {
			return schemas.WithHint(err, "the server is in no cluster: `diapause nats-config --cluster` makes one, or ask for --replicas 1")
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-limit.Done():
			return schemas.WithHint(fmt.Errorf("gave up after %s: %w", c.Wait, err), "look whether as many NATS servers as --replicas reach each other")
		case <-time.After(streamsAgain):
		}
	}
}

func try(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return do(ctx)
}
