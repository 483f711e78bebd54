package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/schemas"
)

// EventsOf gives the events of one type of a session, oldest first, by the stream's
// leader. What can't be read is passed over.
func EventsOf(ctx context.Context, js jetstream.JetStream, n Names, name schemas.Name, kind string) ([]schemas.Event, error) {
	s, err := js.Stream(ctx, n.Events())
	if err != nil {
		return nil, fmt.Errorf("find stream %s: %w", n.Events(), err)
	}
	subject, seq := schemas.SubjectEvent+"."+name.Key()+"."+kind, uint64(0)
	var out []schemas.Event
	for {
		raw, err := s.GetMsg(ctx, seq+1, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read events of %s: %w", name, err)
		}
		seq = raw.Sequence
		var e schemas.Event
		if json.Unmarshal(raw.Data, &e) == nil {
			out = append(out, e)
		}
	}
}
