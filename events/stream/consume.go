package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Consume runs an ordered consumer until ctx ends or fn fails, calling fn from the
// caller's goroutine. caughtUp is called once, when what was stored at the beginning
// has been delivered; from then on messages are live. A stream that goes away once it
// was read from, or its server, is waited for; reading goes on after the last message,
// and gap is called, since what was said meanwhile comes late.
//
// Of cfg the policy, where to begin and what to filter by are heeded. What fn is given
// as meta is its own until it returns.
func Consume(ctx context.Context, js jetstream.JetStream, s jetstream.Stream, cfg jetstream.OrderedConsumerConfig, fn func(msg *nats.Msg, meta *jetstream.MsgMetadata, live bool) error, caughtUp, gap func()) error {
	r := reader{js: js, stream: s, cfg: consumerConfig(cfg), batch: batch, fn: fn, caughtUp: caughtUp}
	return r.consume(ctx, gap)
}

func (r *reader) consume(ctx context.Context, gap func()) error {
	for {
		again, err := r.run(ctx, gap)
		if ctx.Err() != nil {
			return nil
		}
		if !again || !r.opened || errors.Is(err, nats.ErrConnectionClosed) {
			return err
		}
		if err := r.passTorn(ctx); err != nil {
			return err
		}
		gap()
		select {
		case <-time.After(reopenWait):
		case <-ctx.Done():
			return nil
		}
	}
}

// reopenWait is how long a consumer that failed is left alone.
const reopenWait = 250 * time.Millisecond

// reader is the state of one Consume.
type reader struct {
	js       jetstream.JetStream
	stream   jetstream.Stream
	cfg      jetstream.ConsumerConfig
	batch    int // messages that may be on the way
	fn       func(msg *nats.Msg, meta *jetstream.MsgMetadata, live bool) error
	caughtUp func()
	live     bool
	opened   bool                     // it has been read from
	turned   func(jetstream.Consumer) // if given: which is read from now, nil for none
	place    jetstream.MsgMetadata    // of the message that is worked on
	stuck    uint64                   // where it was to begin when it failed last
}

// run reads from one consumer until it fails. again is false if fn was what
// failed.
func (r *reader) run(ctx context.Context, gap func()) (again bool, err error) {
	p, err := r.open(ctx)
	if err != nil {
		return true, fmt.Errorf("consume %s: %w", r.stream.CachedInfo().Config.Name, err)
	}
	defer p.end(ctx)
	if r.turned != nil {
		r.turned(p.consumer)
		defer r.turned(nil)
	}
	if r.opened && p.returned { // nothing could be heard until then
		gap()
	}
	r.opened = true
	for {
		msg, err := r.next(ctx, p)
		if err != nil {
			return true, fmt.Errorf("consume %s: %w", r.stream.CachedInfo().Config.Name, err)
		}
		if err := r.fn(msg, &r.place, r.live); err != nil {
			return false, err
		}
		r.cfg.DeliverPolicy, r.cfg.OptStartSeq, r.cfg.OptStartTime = jetstream.DeliverByStartSequencePolicy, r.place.Sequence.Stream+1, nil
		if r.place.NumPending == 0 {
			r.catchUp()
		}
	}
}

// next waits for a message. Before all that was stored has been delivered it looks now
// and then whether there is still something to wait for: the last of it may be gone, or
// the consumer.
func (r *reader) next(ctx context.Context, p *pull) (*nats.Msg, error) {
	for waited := 1; !r.live && len(p.msgs) == 0; waited++ {
		patient, cancel := context.WithTimeout(ctx, quiet)
		msg, err := p.next(patient, &r.place)
		impatient := patient.Err() != nil
		cancel()
		if err == nil || !impatient || ctx.Err() != nil {
			return msg, err
		}
		info, err := look(ctx, p.consumer)
		if err != nil {
			return nil, err
		}
		switch {
		case info.NumPending == 0 && info.Delivered.Consumer == 0:
			r.catchUp()
		case info.NumPending == 0, waited == quietAtMost:
			return nil, errQuiet
		}
	}
	return p.next(ctx, &r.place)
}

// quiet is how long a reader that hasn't caught up waits for a message before it
// looks whether there is one; quietAtMost is how often.
const (
	quiet       = 2 * time.Second
	quietAtMost = 5
)

// errQuiet makes the reader start again after its last message.
var errQuiet = errors.New("there was more to read, and it didn't arrive")

func (r *reader) open(ctx context.Context) (*pull, error) {
	ctx, cancel := context.WithTimeout(ctx, openWait)
	defer cancel()
	p, err := startPull(ctx, r.js, r.stream, r.cfg, r.batch)
	if err != nil {
		return nil, err
	}
	info, err := look(ctx, p.consumer)
	if err != nil {
		p.end(ctx)
		return nil, err
	}
	if info.NumPending == 0 && info.Delivered.Consumer == 0 {
		r.catchUp()
	}
	return p, nil
}

// openWait bounds how long making a consumer may take, which may have to look at every
// message that is stored.
const openWait = 30 * time.Second

// consumerConfig is what the server is told of a reader.
func consumerConfig(o jetstream.OrderedConsumerConfig) jetstream.ConsumerConfig {
	c := jetstream.ConsumerConfig{
		DeliverPolicy: o.DeliverPolicy, OptStartSeq: o.OptStartSeq, OptStartTime: o.OptStartTime,
		AckPolicy: jetstream.AckNonePolicy, InactiveThreshold: abandoned, Replicas: 1, MemoryStorage: true, FilterSubjects: o.FilterSubjects,
	}
	switch {
	case len(o.FilterSubjects) == 1:
		c.FilterSubject, c.FilterSubjects = o.FilterSubjects[0], nil
	case len(o.FilterSubjects) == 0 && o.DeliverPolicy == jetstream.DeliverLastPerSubjectPolicy:
		c.FilterSubjects = []string{">"} // the server wants to be told
	}
	return c
}

// abandoned is when the server drops the consumer of a reader that went without a
// word.
const abandoned = time.Minute

// dropWait is how long a reader that ends waits for its consumer to be dropped.
const dropWait = time.Second

// infoWait is how long a consumer may take to say how far it is. The client would
// wait for as long as its context lives: for ever, if the node that has the
// consumer is gone with the question.
const infoWait = 5 * time.Second

func look(ctx context.Context, c jetstream.Consumer) (*jetstream.ConsumerInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, infoWait)
	defer cancel()
	return c.Info(ctx)
}

func (r *reader) catchUp() {
	if !r.live {
		r.live = true
		r.caughtUp()
	}
}
