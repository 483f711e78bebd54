package natstraps_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// One message with a rollup header empties a whole stream, denied deletes
// notwithstanding: with it, one writer of one key could erase the log of all
// sessions. None of our streams that keep anything for good takes one.
func TestRollup(t *testing.T) {
	_, js := one(t)
	ctx := t.Context()
	open, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "OPEN", Subjects: []string{"open.>"}, DenyDelete: true, AllowRollup: true})
	must(t, err)
	for i := range 5 {
		_, err := js.Publish(ctx, fmt.Sprint("open.", i), nil)
		must(t, err)
	}
	rollup := func(subject string) error {
		msg := nats.NewMsg(subject)
		msg.Header.Set("Nats-Rollup", "all")
		_, err := js.PublishMsg(ctx, msg)
		return err
	}
	must(t, rollup("open.0"))
	if info, err := open.Info(ctx); err != nil || info.State.Msgs != 1 {
		t.Errorf("the trap is gone: a rollup leaves %d messages, %v", info.State.Msgs, err)
	}
	for _, subject := range []string{
		names.SessionSubject(work), names.KeySubject(""), schemas.SubjectEvent + ".acme.work.warning",
		schemas.ActivitySubject(work, schemas.KindInput, ""), schemas.SubjectCommand + ".h.acme.work",
	} {
		if err := rollup(subject); err == nil {
			t.Errorf("%s takes a rollup", subject)
		}
	}
}

// Denied deletes hold for the stream's own interface; a purge goes through, which
// is how the janitor drops what it has exported. Anyone who may publish to the
// JetStream API may purge: that is a matter of permissions.
func TestDeniedDeletes(t *testing.T) {
	_, js := one(t)
	swap(t, records(t, js), statekvNone, newSession())
	s, err := js.Stream(t.Context(), names.SessionStream())
	must(t, err)
	if err := s.DeleteMsg(t.Context(), 1); err == nil {
		t.Error("a revision was deleted")
	}
	if err := s.SecureDeleteMsg(t.Context(), 1); err == nil {
		t.Error("a revision was overwritten")
	}
	must(t, s.Purge(t.Context(), jetstream.WithPurgeSequence(1)))
}

// A write that expects another last revision is refused and leaves nothing behind,
// with any message id: the whole protocol stands on it. A key that was never
// written has revision 0.
func TestCompareAndSwap(t *testing.T) {
	_, js := one(t)
	ctx, subject := t.Context(), names.SessionSubject(work)
	_, err := js.Publish(ctx, subject, []byte("a"), jetstream.WithExpectLastSequencePerSubject(1))
	if code(err) != jetstream.JSErrCodeStreamWrongLastSequence {
		t.Errorf("a wrong revision of a new key: %v", err)
	}
	first, err := js.Publish(ctx, subject, []byte("a"), jetstream.WithExpectLastSequencePerSubject(0))
	must(t, err)
	// Another key's writes don't count.
	_, err = js.Publish(ctx, names.SessionSubject(schemas.Name{Tenant: "acme", Session: "other"}), []byte("x"), jetstream.WithExpectLastSequencePerSubject(0))
	must(t, err)
	_, err = js.Publish(ctx, subject, []byte("b"), jetstream.WithExpectLastSequencePerSubject(first.Sequence))
	must(t, err)
	for _, stale := range []uint64{0, first.Sequence, 99} {
		_, err := js.Publish(ctx, subject, []byte("c"), jetstream.WithExpectLastSequencePerSubject(stale))
		if code(err) != jetstream.JSErrCodeStreamWrongLastSequence {
			t.Errorf("expecting %d: %v", stale, err)
		}
	}
	if got := state(t, js, names.SessionStream()); got.Msgs != 3 {
		t.Errorf("%d messages are stored, want 3", got.Msgs)
	}
}

// An ordinary KV bucket keeps at most 64 revisions of a key and drops the oldest in
// silence: half of the log would be gone without a word. Ours keeps them all.
func TestRevisionsAreBoundedInOrdinaryBuckets(t *testing.T) {
	_, js := one(t)
	ctx := t.Context()
	if _, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "more", History: 65}); err == nil {
		t.Error("the trap is gone: a bucket keeps 65 revisions")
	}
	kv, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "ordinary", History: 64})
	must(t, err)
	var last, ours uint64
	for range 70 {
		last, err = kv.Update(ctx, "k", []byte("x"), last)
		must(t, err)
		ack, err := js.Publish(ctx, names.SessionSubject(work), []byte("x"), jetstream.WithExpectLastSequencePerSubject(ours))
		must(t, err)
		ours = ack.Sequence
	}
	if n := state(t, js, "KV_ordinary").Msgs; n != 64 {
		t.Errorf("the trap is gone: an ordinary bucket keeps %d of 70 revisions", n)
	}
	if n := state(t, js, names.SessionStream()).Msgs; n != 70 {
		t.Errorf("ours keeps %d of 70 revisions", n)
	}
}

// The client's own call for a bucket turns direct reads and rollups on in one
// that exists. Reads would then come from replicas that are behind. Ensure turns
// both off again.
func TestBucketsMadeInTheOrdinaryWay(t *testing.T) {
	_, js := one(t)
	_, err := js.CreateOrUpdateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: names.Sessions(), History: 1})
	must(t, err)
	s, err := js.Stream(t.Context(), names.SessionStream())
	must(t, err)
	if cfg := s.CachedInfo().Config; !cfg.AllowDirect || !cfg.AllowRollup {
		t.Error("the trap is gone: direct reads and rollups stay off")
	}
	must(t, stream.Ensure(t.Context(), js, names, 1))
	if info, err := s.Info(t.Context()); err != nil || info.Config.AllowDirect || info.Config.AllowRollup {
		t.Errorf("direct reads or rollups are still on, %v", err)
	}
}

// What the server republishes is not stored for anyone: who isn't connected misses
// it. So projections and audits read the stream, never diapause.v1.session.
func TestRepublishedMessagesAreLost(t *testing.T) {
	c, js := one(t)
	door := c.Door()
	nc, _ := connect(t, door)
	sub, err := nc.SubscribeSync(schemas.SubjectSession + ".>")
	must(t, err)
	must(t, nc.Flush())
	s := records(t, js)
	first := swap(t, s, statekvNone, newSession())
	if _, err := sub.NextMsg(limit); err != nil {
		t.Fatalf("nothing was republished: %v", err)
	}
	door.Cut()
	second := swap(t, s, first, schemas.Transition{Type: schemas.TStarted})
	door.Heal()
	until(t, "the listener is back", func() bool { return nc.FlushTimeout(time.Second) == nil })
	third := swap(t, s, second, schemas.Transition{Type: schemas.TIdleRule})
	msg, err := sub.NextMsg(limit)
	must(t, err)
	if got := msg.Header.Get("Nats-Sequence"); got != fmt.Sprint(third.Version) {
		t.Errorf("the trap is gone: after the gap it hears revision %s, not %d", got, third.Version)
	}
	if all, err := s.History(t.Context(), work); err != nil || len(all) != 3 {
		t.Errorf("the stream has %d revisions, %v", len(all), err)
	}
}

// The partition of a session is computed by the server (FNV-1a over the tokens):
// another function would give the work of every session to someone else.
func TestPartition(t *testing.T) {
	_, js := one(t)
	for session, want := range map[string]string{"work": partitionOf("acmework"), "web-42": partitionOf("acmeweb-42")} {
		ack, err := js.Publish(t.Context(), schemas.ActivitySubject(schemas.Name{Tenant: "acme", Session: schemas.SessionID(session)}, schemas.KindInput, ""), nil)
		must(t, err)
		s, err := js.Stream(t.Context(), names.Activity())
		must(t, err)
		msg, err := s.GetMsg(t.Context(), ack.Sequence)
		must(t, err)
		if wanted := fmt.Sprintf("%s.%s.acme.%s.input", schemas.SubjectStored, want, session); msg.Subject != wanted {
			t.Errorf("stored as %s, want %s", msg.Subject, wanted)
		}
	}
}
