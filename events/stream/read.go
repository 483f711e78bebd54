package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// Heard is one message of the activity stream, or the news that all that was
// stored when reading began has been delivered.
type Heard struct {
	Message  session.Message
	CaughtUp bool
	Gap      bool  // reading stopped for a while: what was said then comes late
	Bad      error // a message that isn't activity: counted, else ignored
}

// Activity reads the last word of every kind of every session, then what comes,
// until ctx ends, calling fn from one goroutine. What was stored before counts
// from when the server accepted it, what comes live from when it is heard: the
// clocks of two machines are never compared for it.
func Activity(ctx context.Context, js jetstream.JetStream, n Names, fn func(Heard)) error {
	cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy}
	s, err := js.Stream(ctx, n.Activity())
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find stream %s: %w", n.Activity(), err)
	}
	return Consume(ctx, s, cfg, func(msg jetstream.Msg, meta *jetstream.MsgMetadata, live bool) error {
		h := Heard{}
		h.Message, h.Bad = read(msg, meta)
		if live {
			h.Message.At = time.Now()
		}
		fn(h)
		return nil
	}, func() { fn(Heard{CaughtUp: true}) }, func() { fn(Heard{Gap: true}) })
}

func read(msg jetstream.Msg, meta *jetstream.MsgMetadata) (session.Message, error) {
	src, err := schemas.ParseActivitySubject(msg.Subject())
	if err != nil {
		return session.Message{}, err
	}
	a, err := schemas.ParseActivity(msg.Data())
	if err != nil {
		return session.Message{}, fmt.Errorf("%s: %w", msg.Subject(), err)
	}
	return session.Message{Source: src, Activity: a, Seq: meta.Sequence.Stream, At: meta.Timestamp}, nil
}

// Watch calls fn for the activity of one session that the stream accepted after
// seq, until ctx ends.
func Watch(ctx context.Context, js jetstream.JetStream, n Names, name schemas.Name, seq uint64, fn func(session.Message)) error {
	s, err := js.Stream(ctx, n.Activity())
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find stream %s: %w", n.Activity(), err)
	}
	cfg := jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{storedSubject(name)}, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: seq + 1,
	}
	return Consume(ctx, s, cfg, func(msg jetstream.Msg, meta *jetstream.MsgMetadata, _ bool) error {
		if m, err := read(msg, meta); err == nil {
			fn(m)
		}
		return nil
	}, func() {}, func() {})
}

// Since gives the activity of one session that the stream accepted after seq,
// by the stream's leader: everything acknowledged before the call is in it.
func Since(ctx context.Context, js jetstream.JetStream, n Names, name schemas.Name, seq uint64) ([]session.Message, error) {
	s, err := js.Stream(ctx, n.Activity())
	if err != nil {
		return nil, fmt.Errorf("find stream %s: %w", n.Activity(), err)
	}
	var out []session.Message
	for {
		raw, err := s.GetMsg(ctx, seq+1, jetstream.WithGetMsgSubject(storedSubject(name)))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read activity of %s: %w", name, err)
		}
		seq = raw.Sequence
		src, err := schemas.ParseActivitySubject(raw.Subject)
		if err != nil {
			continue // counted by whoever reads the whole stream
		}
		a, err := schemas.ParseActivity(raw.Data)
		if err != nil {
			continue
		}
		out = append(out, session.Message{Source: src, Activity: a, Seq: raw.Sequence, At: raw.Time})
	}
}

// LastActivity is the sequence of the last message of the activity stream.
func LastActivity(ctx context.Context, js jetstream.JetStream, n Names) (uint64, error) {
	s, err := js.Stream(ctx, n.Activity())
	if err != nil {
		return 0, fmt.Errorf("find stream %s: %w", n.Activity(), err)
	}
	return s.CachedInfo().State.LastSeq, nil
}

func storedSubject(n schemas.Name) string { return schemas.SubjectStored + ".*." + n.Key() + ".>" }
