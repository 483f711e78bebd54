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
func Consume(ctx context.Context, s jetstream.Stream, cfg jetstream.OrderedConsumerConfig, fn func(msg jetstream.Msg, meta *jetstream.MsgMetadata, live bool) error, caughtUp, gap func()) error {
	cfg.InactiveThreshold = abandoned
	cfg.MaxResetAttempts = 1 // the client would try for ever, whatever becomes of ctx or the connection
	r := reader{stream: s, cfg: cfg, fn: fn, caughtUp: caughtUp}
	for {
		again, err := r.run(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if !again || !r.opened || errors.Is(err, nats.ErrConnectionClosed) {
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
	stream   jetstream.Stream
	cfg      jetstream.OrderedConsumerConfig
	fn       func(msg jetstream.Msg, meta *jetstream.MsgMetadata, live bool) error
	caughtUp func()
	live     bool
	opened   bool                  // it has been read from
	place    jetstream.MsgMetadata // of the message that is worked on
}

// run reads from one consumer until it fails. again is false if fn was what
// failed.
func (r *reader) run(ctx context.Context) (again bool, err error) {
	c, it, err := r.open(ctx)
	if err != nil {
		return true, fmt.Errorf("consume %s: %w", r.stream.CachedInfo().Config.Name, err)
	}
	f := r.flow(ctx, c, it)
	defer f.end()
	r.opened = true
	for {
		msg, err := r.next(ctx, c, f)
		if err != nil {
			return true, fmt.Errorf("consume %s: %w", r.stream.CachedInfo().Config.Name, err)
		}
		meta, err := placeOf(msg, &r.place)
		if err != nil {
			return false, fmt.Errorf("consume %s: %w", r.stream.CachedInfo().Config.Name, err)
		}
		if err := r.fn(msg, meta, r.live); err != nil {
			return false, err
		}
		r.cfg.DeliverPolicy, r.cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, meta.Sequence.Stream+1
		if meta.NumPending == 0 {
			r.catchUp()
		}
	}
}

// flow is an iterator that is read in a goroutine of its own: one that is making its
// consumer anew heeds neither a context nor its own Stop.
type flow struct {
	msgs   chan jetstream.Msg
	stop   context.CancelFunc
	gone   chan struct{} // closed when the goroutine has ended, and its consumer is dropped
	failed error         // why msgs was closed
}

// ahead is how many messages are taken from the connection while one is worked on.
const ahead = 256

func (r *reader) flow(ctx context.Context, c jetstream.Consumer, it jetstream.MessagesContext) *flow {
	ctx, stop := context.WithCancel(ctx)
	f := &flow{msgs: make(chan jetstream.Msg, ahead), stop: stop, gone: make(chan struct{})}
	go func() {
		defer close(f.gone)
		f.failed = f.read(ctx, it)
		close(f.msgs)
		it.Stop()
		r.drop(ctx, c)
	}()
	return f
}

func (f *flow) read(ctx context.Context, it jetstream.MessagesContext) error {
	for {
		msg, err := it.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		select {
		case f.msgs <- msg:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// end stops reading. It waits until the consumer is dropped, but not for one that is
// being made anew: that is left behind, for a request's time at most.
func (f *flow) end() {
	f.stop()
	select {
	case <-f.gone:
	case <-time.After(dropWait):
	}
}

// next waits for a message. Before all that was stored has been delivered it looks now
// and then whether there is still something to wait for: the last of it may be gone, or
// the consumer.
func (r *reader) next(ctx context.Context, c jetstream.Consumer, f *flow) (jetstream.Msg, error) {
	select {
	case msg, ok := <-f.msgs:
		if ok {
			return msg, nil
		}
	default: // a timer for each of a million messages would cost more than reading them
	}
	for waited := 1; !r.live; waited++ {
		patient, cancel := context.WithTimeout(ctx, quiet)
		msg, err := f.take(patient)
		impatient := patient.Err() != nil
		cancel()
		if err == nil || !impatient || ctx.Err() != nil {
			return msg, err
		}
		info, err := look(ctx, c)
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
	return f.take(ctx)
}

func (f *flow) take(ctx context.Context) (jetstream.Msg, error) {
	select {
	case msg, ok := <-f.msgs:
		if !ok {
			return nil, f.failed
		}
		return msg, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// quiet is how long a reader that hasn't caught up waits for a message before it
// looks whether there is one; quietAtMost is how often.
const (
	quiet       = 2 * time.Second
	quietAtMost = 5
)

// errQuiet has the reader begin anew after its last message.
var errQuiet = errors.New("there was more to read, and it didn't arrive")

func (r *reader) open(ctx context.Context) (jetstream.Consumer, jetstream.MessagesContext, error) {
	c, err := r.stream.OrderedConsumer(ctx, r.cfg)
	if err != nil {
		return nil, nil, err
	}
	info, err := look(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	if info.NumPending == 0 && info.Delivered.Consumer == 0 {
		r.catchUp()
	}
	it, err := c.Messages()
	return c, it, err
}

// abandoned is when the server drops the consumer of a reader that went without a
// word.
const abandoned = time.Minute

// dropWait is how long a reader that ends waits for its consumer to be dropped.
const dropWait = time.Second

// drop drops the consumer of a reader that has ended: its Stop leaves that to the
// server's patience, and a stream takes no more than a thousand of them.
func (r *reader) drop(ctx context.Context, c jetstream.Consumer) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropWait)
	defer cancel()
	_ = r.stream.DeleteConsumer(ctx, c.CachedInfo().Name) // else it goes when it is abandoned
}

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
