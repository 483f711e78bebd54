package stream

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// on is a pull that was sent something and has asked for all it wants.
func on(msgs ...*nats.Msg) *pull {
	p := &pull{msgs: make(chan *nats.Msg, len(msgs)), silence: time.NewTimer(time.Hour), batch: batch, asked: batch}
	for _, m := range msgs {
		p.msgs <- m
	}
	return p
}

func numbered(seq, consumerSeq int) *nats.Msg {
	return &nats.Msg{Reply: fmt.Sprintf("$JS.ACK.S.c.1.%d.%d.1700000000000000000.5", seq, consumerSeq)}
}

func says(status string, more ...string) *nats.Msg {
	h := nats.Header{"Status": {status}}
	if len(more) > 0 {
		h["Nats-Pending-Messages"] = more
	}
	return &nats.Msg{Header: h}
}

// A message that didn't arrive is noticed by the next, and by the silence after the last.
func TestLostOnTheWay(t *testing.T) {
	p := on(numbered(7, 1), numbered(9, 2), numbered(12, 4))
	var at jetstream.MsgMetadata
	for _, want := range []uint64{7, 9} {
		if _, err := p.next(t.Context(), &at); err != nil || at.Sequence.Stream != want {
			t.Fatalf("message %d, want %d: %v", at.Sequence.Stream, want, err)
		}
	}
	if _, err := p.next(t.Context(), &at); !errors.Is(err, errMissed) {
		t.Errorf("after 2 of the consumer's messages came the 4th: %v", err)
	}

	alive := func(last string) *nats.Msg {
		return &nats.Msg{Header: nats.Header{"Status": {"100"}, "Nats-Last-Consumer": {last}}}
	}
	p = on(numbered(7, 1), alive("1"), alive("2"))
	if _, err := p.next(t.Context(), &at); err != nil {
		t.Fatal(err)
	}
	if _, err := p.next(t.Context(), &at); !errors.Is(err, errMissed) || len(p.msgs) != 0 {
		t.Errorf("the server sent 2 messages, 1 came, and nothing follows: %v", err)
	}
}

// What the server says besides messages is no message: a sign of life changes nothing, of
// a request that is over the rest is asked for again, and all else is an end.
func TestWordsOfTheServer(t *testing.T) {
	var at jetstream.MsgMetadata
	p := on(says("100"), says("408", "300"), says("409", "20"), numbered(1, 1))
	if _, err := p.next(t.Context(), &at); err != nil || at.Sequence.Stream != 1 || p.asked != batch-300-20-1 {
		t.Errorf("message %d, %d more are to come: %v", at.Sequence.Stream, p.asked, err)
	}
	for _, m := range []*nats.Msg{says("409"), says("503"), says("408"), says("400"), says("408", "x")} {
		if _, err := on(m).next(t.Context(), &at); err == nil {
			t.Errorf("it goes on after %v", m.Header)
		}
	}
	p = on(says("408", "5000"), numbered(1, 1))
	p.asked = batch
	if err := p.told("408", says("408", "5000").Header); err != nil || p.asked != 0 {
		t.Errorf("%d are to come, of a request of more than was asked for: %v", p.asked, err)
	}
	if data := (&nats.Msg{Data: []byte("x"), Header: nats.Header{"Status": {"409"}}}); statusOf(data) != "" {
		t.Error("a message with a header of its own is taken for a word of the server")
	}
}
