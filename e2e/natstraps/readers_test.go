package natstraps_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// A consumer that is to begin at a message which is gone begins at the next one
// there is and says nothing. Anyone who folds the log must look at the first version
// it gets: audits do, a gap is reported.
func TestAConsumerBeginsPastAGap(t *testing.T) {
	_, js := one(t)
	ctx, s := t.Context(), records(t, js)
	first := swap(t, s, statekvNone, newSession())
	second := swap(t, s, first, schemas.Transition{Type: schemas.TStarted})
	swap(t, s, second, schemas.Transition{Type: schemas.TIdleRule})
	log, err := js.Stream(ctx, names.SessionStream())
	must(t, err)
	must(t, log.Purge(ctx, jetstream.WithPurgeSequence(3)))
	c, err := log.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: 2})
	must(t, err)
	msg, err := c.Next(jetstream.FetchMaxWait(limit))
	must(t, err)
	if meta, err := msg.Metadata(); err != nil || meta.Sequence.Stream != 3 || meta.Sequence.Consumer != 1 {
		t.Errorf("the trap is gone: it begins with %+v, %v", meta, err)
	}
}

// The last word of every kind of activity is all that is kept, and what a reader
// gets who begins: a scheduler rebuilds itself from it. With an empty message it
// is the server's time that counts.
func TestTheLastWordIsKept(t *testing.T) {
	_, js := one(t)
	ctx := t.Context()
	var last uint64
	for range 3 {
		ack, err := js.Publish(ctx, schemas.ActivitySubject(work, schemas.KindInput, ""), nil)
		must(t, err)
		last = ack.Sequence
	}
	ack, err := js.Publish(ctx, schemas.ActivitySubject(work, schemas.KindHold, "a"), nil)
	must(t, err)
	got, err := stream.Since(ctx, js, names, work, 0)
	must(t, err)
	if len(got) != 2 || got[0].Seq != last || got[1].Seq != ack.Sequence || got[0].At.IsZero() {
		t.Errorf("kept %+v", got)
	}
}

// A lease's message goes when its time has come, by itself; one without a time
// stays. The server's clock is coarse, so that only space depends on it: whether
// a lease lives is decided from its own words.
func TestMessagesWithALifetime(t *testing.T) {
	t.Parallel()
	_, js := one(t)
	msg := nats.NewMsg(schemas.ActivitySubject(work, schemas.KindHold, "short"))
	msg.Header.Set("Nats-TTL", "1s")
	_, err := js.PublishMsg(t.Context(), msg)
	must(t, err)
	_, err = js.Publish(t.Context(), schemas.ActivitySubject(work, schemas.KindHold, "long"), nil)
	must(t, err)
	until(t, "the lease's message is gone", func() bool { return state(t, js, names.Activity()).Msgs == 1 })
}

// An update of a key in a bucket forgets the lifetime that the key was made with:
// a host's lease that was renewed so would never run out by itself. So leases are
// judged by their observers' clocks, and no state of ours has a lifetime.
func TestAnUpdateForgetsTheLifetime(t *testing.T) {
	_, js := one(t)
	ctx := t.Context()
	kv, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "ttl", LimitMarkerTTL: time.Hour})
	must(t, err)
	rev, err := kv.Create(ctx, "k", []byte("1"), jetstream.KeyTTL(time.Hour))
	must(t, err)
	rev2, err := kv.Update(ctx, "k", []byte("2"), rev)
	must(t, err)
	s, err := js.Stream(ctx, "KV_ttl")
	must(t, err)
	header := func(seq uint64) string {
		msg, err := s.GetMsg(ctx, seq)
		if err != nil {
			return err.Error()
		}
		return msg.Header.Get("Nats-TTL")
	}
	if got := header(rev2); got != "" {
		t.Errorf("the trap is gone: an updated key has the lifetime %s", got)
	}
	// On the stream of records no one can set one.
	msg := nats.NewMsg(names.SessionSubject(work))
	msg.Header.Set("Nats-TTL", "1s")
	if _, err := js.PublishMsg(ctx, msg); err == nil {
		t.Error("a record was stored with a lifetime")
	}
}

// A stream that acknowledges before it writes lost acknowledged messages when its
// server was killed, and a replicated one can't be made so. Ours ask for none of it.
func TestWritesAreNotPutOff(t *testing.T) {
	_, js := one(t)
	for _, name := range []string{names.SessionStream(), names.KeyStream(), names.Activity(), names.Events(), names.Commands()} {
		s, err := js.Stream(t.Context(), name)
		must(t, err)
		cfg := s.CachedInfo().Config
		if cfg.PersistMode != jetstream.DefaultPersistMode || cfg.Storage != jetstream.FileStorage || cfg.NoAck {
			t.Errorf("%s: %+v", name, cfg)
		}
	}
}

// An ordered consumer that is stopped stays on its server until that has lost
// patience, and a stream of a cluster takes only so many of them: with one per
// suspend a busy fleet would soon start and suspend nothing. Readers drop their own.
func TestStoppedConsumersStay(t *testing.T) {
	_, js := one(t)
	s, err := js.Stream(t.Context(), names.Activity())
	must(t, err)
	for range 3 {
		c, err := s.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{})
		must(t, err)
		it, err := c.Messages()
		must(t, err)
		it.Stop()
	}
	if n := state(t, js, names.Activity()).Consumers; n != 3 {
		t.Errorf("the trap is gone: of 3 consumers that were stopped %d are left", n)
	}
}

// How far a consumer is, it says, or no one does: a question that goes under with
// its node is not answered, and the client waits as long as its context lives.
// Anyone who asks gives it an end.
func TestAQuestionMayHaveNoAnswer(t *testing.T) {
	t.Parallel()
	c, _ := one(t)
	door := c.Door()
	_, js := connect(t, door)
	s, err := js.Stream(t.Context(), names.Activity())
	must(t, err)
	reader, err := s.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{})
	must(t, err)
	door.Stall()
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	go func() {
		_, err := reader.Info(ctx)
		answered <- err
	}()
	if _, err := s.Info(ctx); err == nil { // this one has an end of its own
		t.Error("an answer came through a stalled connection")
	}
	select {
	case err := <-answered:
		t.Errorf("the trap is gone: the question ends by itself: %v", err)
	case <-time.After(2 * time.Second):
	}
	cancel()
	<-answered
}
