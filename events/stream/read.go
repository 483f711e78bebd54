package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// Heard is one message of the activity stream, or the news that all that was
// stored when reading began has been delivered.
type Heard struct {
	Message  session.Message
	CaughtUp bool
	Gap      bool // reading stopped for a while: what was said then comes late
	// Through says up to when all was heard that the stream had taken: by this host's clock, and
	// a moment ago unless the reader is behind. CaughtUp has it, too.
	Through time.Time
	Bad     error // a message that isn't activity: counted, else ignored
	// Unproved says why it can't be noticed what the server drops. It is told once.
	Unproved error
	// Event is the envelope of activity that came as a CloudEvent; nil else.
	Event *schemas.CloudEvent
	// Skewed says that the publisher's clock, where the envelope tells it, is far from
	// the server's. It is only counted.
	Skewed bool
}

// skewed is how far a publisher's clock may be off before it is worth a word.
const skewed = 5 * time.Minute

// Activity reads the last word of every kind of every session, then what comes,
// until ctx ends, never calling fn twice at a time. What was stored before counts
// from when the server accepted it, what comes live from when it is heard: the
// clocks of two machines are never compared for it. It says up to when all was heard (Through) while
// something is heard, soon after each token in asks, and now and then. probing has it find out by messages of its own
// whether the server drops some, which is a gap: a reader in the server's own process hears that of the server.
func Activity(ctx context.Context, js jetstream.JetStream, n Names, asks <-chan struct{}, probing bool, fn func(Heard)) error {
	cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy}
	js, end, err := Apart(js)
	if err != nil {
		return unless(ctx, err)
	}
	defer end()
	s, err := js.Stream(ctx, n.Activity())
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find stream %s: %w", n.Activity(), err)
	}
	ahead := aheadOf(s)
	at := &reach{fn: fn, stream: s, much: make(chan struct{}, 1)}
	r := reader{js: js, stream: s, cfg: consumerConfig(cfg), batch: LargeBatch, turned: at.opened}
	r.fn = func(msg *nats.Msg, meta *jetstream.MsgMetadata, live bool) error {
		if isProbe(msg.Subject) {
			at.pass(meta)
			return nil
		}
		h := heard(msg, meta)
		h.Message.At = h.Message.At.Add(ahead)
		if live {
			h.Message.At = time.Now()
		}
		at.hear(h, meta)
		return nil
	}
	sounding, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	r.caughtUp = func() {
		at.tell(Heard{CaughtUp: true, Through: time.Now()})
		wg.Go(func() { at.sound(sounding, js, n, asks) })
		if probing {
			wg.Go(func() { at.probes(sounding, js) })
		}
	}
	return r.consume(ctx, func() { at.tell(Heard{Gap: true}) })
}

// unless gives nil for an error that came since ctx had ended.
func unless(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// aheadOf is how far this host's clock is ahead of that of the stream's leader, which
// has just answered: a lease that was stored before must not end early because one of
// the two is hours off.
func aheadOf(s jetstream.Stream) time.Duration {
	if said := s.CachedInfo().TimeStamp; !said.IsZero() {
		return time.Since(said)
	}
	return 0
}

// heard reads one message of the stream.
func heard(msg *nats.Msg, meta *jetstream.MsgMetadata) Heard {
	m, said, err := parse(msg.Subject, msg.Header, msg.Data)
	m.Seq, m.At = meta.Sequence.Stream, meta.Timestamp
	h := Heard{Message: m, Bad: err, Event: said.Event}
	if e := said.Event; e != nil && !e.Time.IsZero() {
		h.Skewed = meta.Timestamp.Sub(e.Time).Abs() > skewed
	}
	return h
}

func parse(subject string, header nats.Header, data []byte) (session.Message, schemas.Said, error) {
	src, err := schemas.ParseActivitySubject(subject)
	if err != nil {
		return session.Message{}, schemas.Said{}, err
	}
	said, err := schemas.ParseMessage(header, data)
	if err != nil {
		return session.Message{}, said, fmt.Errorf("%s: %w", schemas.Published(subject), err)
	}
	return session.Message{Source: src, Activity: said.Activity}, said, nil
}

// Watch calls fn for the activity of one session that the stream accepted after
// seq, until ctx ends.
func Watch(ctx context.Context, js jetstream.JetStream, n Names, name schemas.Name, seq uint64, fn func(session.Message)) error {
	js, end, err := Apart(js)
	if err != nil {
		return unless(ctx, err)
	}
	defer end()
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
	return Consume(ctx, js, s, cfg, func(msg *nats.Msg, meta *jetstream.MsgMetadata, _ bool) error {
		if h := heard(msg, meta); h.Bad == nil {
			fn(h.Message)
		}
		return nil
	}, func() {}, func() {})
}

// Trace gives which trace a message of the activity is a part of, see schemas.HeaderTrace; "" if it doesn't
// say so, or is gone.
func Trace(ctx context.Context, js jetstream.JetStream, n Names, seq uint64) (string, error) {
	s, err := js.Stream(ctx, n.Activity())
	if err != nil {
		return "", fmt.Errorf("find stream %s: %w", n.Activity(), err)
	}
	raw, err := s.GetMsg(ctx, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read activity %d: %w", seq, err)
	}
	return raw.Header.Get(schemas.HeaderTrace), nil
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
		m, _, err := parse(raw.Subject, raw.Header, raw.Data)
		if err != nil {
			continue // counted by readers of the whole stream
		}
		m.Seq, m.At = raw.Sequence, raw.Time
		out = append(out, m)
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
