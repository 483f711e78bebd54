package natstraps_test

import (
	"hash/fnv"
	"strconv"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// statekvNone stands for a key that was never written.
var statekvNone statekv.Versioned

func partitionOf(tokens string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(tokens))
	return strconv.Itoa(int(h.Sum32() % stream.Partitions))
}

const command = schemas.SubjectCommand + ".h.acme.work"

// hostConsumer consumes as a host does.
func hostConsumer(t *testing.T, js jetstream.JetStream) jetstream.Consumer {
	t.Helper()
	c, err := js.CreateOrUpdateConsumer(t.Context(), names.Commands(), jetstream.ConsumerConfig{
		Durable: "worker-h", FilterSubject: schemas.SubjectCommand + ".h.>", AckPolicy: jetstream.AckExplicitPolicy,
	})
	must(t, err)
	return c
}

func next(t *testing.T, c jetstream.Consumer) jetstream.Msg {
	t.Helper()
	msg, err := c.Next(jetstream.FetchMaxWait(limit))
	must(t, err)
	return msg
}

// The newest command of a session replaces one that waits, and is delivered at
// once even if the older one is being worked on; the older one's late
// acknowledgement takes nothing away. With the other discard policy a wake would
// be refused while an earlier one is in work.
func TestTheNewestCommandReplacesTheOlder(t *testing.T) {
	_, js := one(t)
	ctx, c := t.Context(), hostConsumer(t, js)
	_, err := js.Publish(ctx, command, []byte("1"))
	must(t, err)
	first := next(t, c)
	_, err = js.Publish(ctx, command, []byte("2"))
	must(t, err)
	_, err = js.Publish(ctx, command, []byte("3"))
	must(t, err)
	if n := state(t, js, names.Commands()).Msgs; n != 1 {
		t.Errorf("%d commands wait for one session", n)
	}
	must(t, first.DoubleAck(ctx))
	last := next(t, c)
	for string(last.Data()) == "2" { // it may have been on its way
		must(t, last.DoubleAck(ctx))
		last = next(t, c)
	}
	if string(last.Data()) != "3" {
		t.Errorf("delivered %q", last.Data())
	}
	must(t, last.DoubleAck(ctx))
	if n := state(t, js, names.Commands()).Msgs; n != 0 {
		t.Errorf("%d commands are left", n)
	}
}

// An acknowledgement is a message to a subject that anyone may know who may publish
// there: it isn't bound to who got the delivery. A command may vanish though its
// host never saw it, so hosts watch records as well, and sweep.
func TestAnyoneAcknowledges(t *testing.T) {
	c, js := one(t)
	_, err := js.Publish(t.Context(), command, nil)
	must(t, err)
	msg := next(t, hostConsumer(t, js))
	other, _ := connect(t, c.Door())
	if _, err := other.Request(msg.Reply(), []byte("+ACK"), limit); err != nil {
		t.Fatal(err)
	}
	if n := state(t, js, names.Commands()).Msgs; n != 0 {
		t.Error("the trap is gone: another client's acknowledgement doesn't count")
	}
}

// The server sends its acknowledgement of a publish wherever the publisher says,
// past the publisher's own permissions: as a stored message, if that is a stream's
// subject. So strangers' replies have to be kept in.
func TestAcknowledgementsAreSentAnywhere(t *testing.T) {
	c, js := one(t)
	nc, _ := connect(t, c.Door())
	must(t, nc.PublishMsg(&nats.Msg{
		Subject: schemas.ActivitySubject(work, schemas.KindInput, ""), Reply: names.SessionSubject(work),
	}))
	until(t, "the trap is gone: the acknowledgement isn't stored as a record", func() bool {
		return state(t, js, names.SessionStream()).Msgs == 1
	})
}

// A message id protects against repeats only while the server remembers it: a work
// queue takes the same id again after a restart, once the first was consumed. So
// commands carry none and are repeatable, and transitions are found by their own
// id in the log.
func TestMessageIDsAreForgotten(t *testing.T) {
	c, js := one(t)
	ctx, consumer := t.Context(), hostConsumer(t, js)
	first, err := js.Publish(ctx, command, nil, jetstream.WithMsgID("a"))
	must(t, err)
	if again, err := js.Publish(ctx, command, nil, jetstream.WithMsgID("a")); err != nil || !again.Duplicate {
		t.Errorf("a repeat is no duplicate: %+v, %v", again, err)
	}
	must(t, next(t, consumer).DoubleAck(ctx))
	c.StopNode(0)
	must(t, c.StartNode(0))
	c.AwaitReady()
	var after *jetstream.PubAck
	until(t, "the client is back", func() bool { after, err = js.Publish(ctx, command, nil, jetstream.WithMsgID("a")); return err == nil })
	if after.Duplicate || after.Sequence == first.Sequence {
		t.Errorf("the trap is gone: after a restart it is %+v", after)
	}
}

// One server looks at the expected revision before the message id, so that the
// repeat of a write that was made is refused like a stranger's. (A cluster looks
// at the id first.) A repeated swap therefore looks for its own transition in the
// log, and asks no message id.
func TestARepeatedSwapLooksRefused(t *testing.T) {
	for servers, start := range map[string]func(*testing.T) jetstream.JetStream{
		"one":   func(t *testing.T) jetstream.JetStream { _, js := one(t); return js },
		"three": func(t *testing.T) jetstream.JetStream { _, js := three(t); return js },
	} {
		t.Run(servers, func(t *testing.T) {
			t.Parallel()
			js := start(t)
			write := func() (*jetstream.PubAck, error) {
				return js.Publish(t.Context(), names.SessionSubject(work), nil, jetstream.WithMsgID("a"), jetstream.WithExpectLastSequencePerSubject(0))
			}
			stored := func(_ *jetstream.PubAck, err error) bool { // by this attempt, or one before it
				return err == nil || code(err) == jetstream.JSErrCodeStreamWrongLastSequence
			}
			until(t, "it is stored", func() bool { return stored(write()) })
			until(t, "the repeat is refused, or a duplicate", func() bool {
				again, err := write()
				if err == nil && !again.Duplicate {
					t.Errorf("the repeat is stored: %+v", again)
				}
				return stored(again, err)
			})
			if n := state(t, js, names.SessionStream()).Msgs; n != 1 {
				t.Errorf("%d messages are stored", n)
			}
		})
	}
}
