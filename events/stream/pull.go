package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// pull reads a stream in order through a consumer of its own. Any failure ends it with
// an error, and its reader starts again after the last message. The client's own ordered consumer does the same, with a timer, a lock and
// a second goroutine for each of a million messages.
type pull struct {
	stream   jetstream.Stream
	nc       *nats.Conn
	consumer jetstream.Consumer
	sub      *nats.Subscription
	msgs     chan *nats.Msg
	status   chan nats.Status
	silence  *time.Timer
	subject  string // where messages are asked for
	batch    int    // how many messages may be on the way
	asked    int    // messages that were asked for and are to come
	seq      uint64 // by the consumer's own count, of the last message
	returned bool   // the connection came back while the consumer was made
}

// What is asked for: so many messages that there are always some on the way, for so
// long at most, with a sign of life in between.
const (
	batch    = 2000
	maxBytes = 16 << 20 // of which there may be two on the way: a server closes a connection with 64 MB
	expires  = 30 * time.Second
	beat     = 10 * time.Second
	silent   = 2 * beat
)

// LargeBatch is what a reader of activity asks for. A server that is behind stores what
// has come in, however much, before it delivers anything: once a second, then, if it is
// thousands of messages. Who asks for fewer than come in meanwhile falls ever further
// behind.
const LargeBatch = 32000

// answers is the room for what the server says besides messages.
const answers = 64

// request is what the server is asked.
type request struct {
	Batch    int           `json:"batch"`
	MaxBytes int           `json:"max_bytes"`
	Expires  time.Duration `json:"expires"`
	Beat     time.Duration `json:"idle_heartbeat"`
}

// Why a pull is over. Its reader goes on with another.
var (
	errMissed    = errors.New("messages were lost on the way")
	errSilent    = errors.New("its consumer is not heard of any more")
	errReconnect = errors.New("the connection was lost, and is back")
)

// startPull makes the consumer. The caller has to end the pull.
func startPull(ctx context.Context, js jetstream.JetStream, s jetstream.Stream, cfg jetstream.ConsumerConfig, batch int) (_ *pull, err error) {
	p := &pull{stream: s, nc: js.Conn(), batch: batch, msgs: make(chan *nats.Msg, batch+answers), silence: time.NewTimer(silent)}
	p.status = p.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer func() {
		if err != nil {
			p.end(ctx)
		}
	}()
	if p.sub, err = p.nc.ChanSubscribe(p.nc.NewInbox(), p.msgs); err != nil {
		return nil, err
	}
	if p.consumer, err = s.CreateConsumer(ctx, cfg); err != nil {
		return nil, err
	}
	for len(p.status) > 0 { // of connections before the one that it was made on
		if s := <-p.status; s == nats.CLOSED {
			return nil, nats.ErrConnectionClosed
		}
		p.returned = true
	}
	info := p.consumer.CachedInfo()
	p.subject = apiOf(js.Options()) + "CONSUMER.MSG.NEXT." + info.Stream + "." + info.Name
	return p, nil
}

// apiOf is where a client has JetStream asked, as the client makes it of its options.
func apiOf(o jetstream.JetStreamOptions) string {
	switch {
	case o.Domain != "":
		return "$JS." + o.Domain + ".API."
	case o.APIPrefix != "":
		return strings.TrimSuffix(o.APIPrefix, ".") + "."
	}
	return jetstream.DefaultAPIPrefix
}

// next gives the next message.
func (p *pull) next(ctx context.Context, meta *jetstream.MsgMetadata) (*nats.Msg, error) {
	for {
		if p.asked <= p.batch/2 {
			if err := p.ask(p.batch - p.asked); err != nil {
				return nil, err
			}
		}
		msg, err := p.take(ctx)
		if err != nil {
			return nil, err
		}
		if status := statusOf(msg); status != "" {
			if err := p.told(status, msg.Header); err != nil {
				return nil, err
			}
			continue
		}
		if err := placeOf(msg, meta); err != nil {
			return nil, err
		}
		if meta.Sequence.Consumer != p.seq+1 {
			return nil, fmt.Errorf("%w: message %d came after %d", errMissed, meta.Sequence.Consumer, p.seq)
		}
		p.seq++
		p.asked--
		return msg, nil
	}
}

func (p *pull) ask(n int) error {
	data, err := json.Marshal(request{n, maxBytes, expires, beat})
	if err != nil {
		return err
	}
	p.asked += n
	return p.nc.PublishRequest(p.subject, p.sub.Subject, data)
}

// take gives what comes next from the connection.
func (p *pull) take(ctx context.Context) (*nats.Msg, error) {
	select {
	case msg := <-p.msgs:
		return msg, nil
	default: // to wait for more than one thing would cost more than the message
	}
	p.silence.Reset(silent)
	select {
	case msg := <-p.msgs:
		return msg, nil
	case s := <-p.status:
		if s == nats.CLOSED {
			return nil, nats.ErrConnectionClosed
		}
		return nil, errReconnect
	case <-p.silence.C:
		return nil, errSilent
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// statusOf is what the server says in place of a message; "" if it is one. A message tells
// where it stands by where it may be answered: its headers are its publisher's, who may be
// anybody.
func statusOf(msg *nats.Msg) string {
	if msg.Reply != "" || len(msg.Data) > 0 || len(msg.Header) == 0 {
		return ""
	}
	return msg.Header.Get("Status")
}

// told takes in a word of the server: a sign of life, or that a request is over, by its
// time, its messages or its bytes, and how much of it won't come. All else is an end.
func (p *pull) told(status string, h nats.Header) error {
	const alive = "100"
	if status == alive { // and nothing is on the way: the server sends both in order
		if last, err := strconv.ParseUint(h.Get("Nats-Last-Consumer"), 10, 64); err == nil && last > p.seq {
			return fmt.Errorf("%w: the server sent %d, and %d came", errMissed, last, p.seq)
		}
		return nil
	}
	left, err := strconv.Atoi(h.Get("Nats-Pending-Messages"))
	if err != nil {
		return fmt.Errorf("the server says %s %s", status, h.Get("Description"))
	}
	p.asked = max(p.asked-left, 0)
	return nil
}

// end drops the consumer: else it goes when it is abandoned, and a stream takes no more
// than a thousand of them.
func (p *pull) end(ctx context.Context) {
	p.nc.RemoveStatusListener(p.status)
	p.silence.Stop()
	if p.sub != nil {
		_ = p.sub.Unsubscribe() // fails if the connection is closed, and all with it
	}
	if p.consumer == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropWait)
	defer cancel()
	_ = p.stream.DeleteConsumer(ctx, p.consumer.CachedInfo().Name)
}
