package stream

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// replica is the consumer of one that hasn't got yet what the stream has.
type replica struct{ jetstream.Consumer }

func (replica) Info(context.Context) (*jetstream.ConsumerInfo, error) {
	return &jetstream.ConsumerInfo{}, nil
}

// leader is the stream's: it has one message, or none.
type leader struct {
	jetstream.Stream
	has uint64
}

func (l *leader) GetMsg(_ context.Context, seq uint64, _ ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	if l.has < seq {
		return nil, jetstream.ErrMsgNotFound
	}
	return &jetstream.RawStreamMsg{Sequence: l.has}, nil
}

// What the stream's leader has is to come, though the replica that is read from knows of
// nothing: it isn't said to be heard before it is, or is gone or replaced.
func TestAReplicaThatIsBehindSettlesNothing(t *testing.T) {
	for _, then := range []uint64{0, 8} {
		told, has := 0, &leader{has: 7}
		r := &reach{stream: has, fn: func(Heard) { told++ }}
		r.opened(replica{})
		r.aim(7, r.at)
		if r.settle(t.Context()); told != 0 {
			t.Fatal("a message that is to come is said to be heard")
		}
		has.has = then
		if r.settle(t.Context()); told != 1 {
			t.Errorf("what was to come is gone, and it was told %d times that all was heard", told)
		}
	}
}
