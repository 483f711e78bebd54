package tokenkv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

func open(t *testing.T, js jetstream.JetStream) *Store {
	t.Helper()
	s, err := Open(t.Context(), js, stream.NamesWith(""))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func create(t *testing.T, s *Store, r schemas.TokenRequest) (string, schemas.TokenRecord) {
	t.Helper()
	token, rec, err := s.Create(t.Context(), "acme", r, "test")
	if err != nil {
		t.Fatal(err)
	}
	return token, rec
}

func reader(long time.Duration) schemas.TokenRequest {
	return schemas.TokenRequest{Role: schemas.TokenReader, For: schemas.Duration(long)}
}

func check(t *testing.T, s *Store, token string) (schemas.TokenRecord, error) {
	t.Helper()
	return s.Check(t.Context(), token, func(err error) { t.Errorf("the use isn't written down: %v", err) })
}

// messages are all that the bucket has.
func messages(t *testing.T, js jetstream.JetStream) (all [][]byte) {
	t.Helper()
	s, err := js.Stream(t.Context(), stream.NamesWith("").TokenStream())
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= s.CachedInfo().State.LastSeq; seq++ {
		m, err := s.GetMsg(t.Context(), seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, append([]byte(m.Subject), m.Data...))
	}
	return all
}

func TestTokenIsFoundUntilItIsRevoked(t *testing.T) {
	js := natstest.Streams(t)
	s := open(t, js)
	token, made := create(t, s, reader(time.Hour))
	other, _ := create(t, s, reader(time.Hour))
	rec, err := check(t, s, token)
	if err != nil || rec.ID != made.ID || rec.Tenant != "acme" || rec.Role != schemas.TokenReader {
		t.Fatalf("the token is found as %+v: %v", rec, err)
	}
	if _, err := s.Revoke(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{token, "", schemas.TokenPrefix, token + "A", strings.ToUpper(token), "dpt_" + strings.Repeat("A", 43), made.ID, made.Digest} {
		if rec, err := check(t, s, wrong); !errors.Is(err, ErrNone) {
			t.Errorf("%q is found as %+v: %v", wrong, rec, err)
		}
	}
	if _, err := check(t, s, other); err != nil {
		t.Errorf("the other one, after the first was revoked: %v", err)
	}
	if _, err := s.Revoke(t.Context(), "none"); !errors.Is(err, ErrNone) {
		t.Errorf("revoke one that isn't there: %v", err)
	}
	all, err := s.List(t.Context())
	if err != nil || len(all) != 2 {
		t.Errorf("listed are %+v: %v", all, err)
	}
}

// Of many that use up one token at the same time, one has it, and it is none afterwards.
func TestConsumedOnce(t *testing.T) {
	js := natstest.Streams(t)
	token, made := create(t, open(t, js), reader(time.Hour))
	const many = 20
	got := make(chan error, many)
	for range many {
		s := open(t, js)
		go func() {
			rec, err := s.Consume(t.Context(), token)
			if err == nil && rec.ID != made.ID {
				err = fmt.Errorf("it has %+v", rec)
			}
			got <- err
		}()
	}
	had := 0
	for range many {
		switch err := <-got; {
		case err == nil:
			had++
		case !errors.Is(err, ErrNone):
			t.Error(err)
		}
	}
	if had != 1 {
		t.Errorf("%d have it", had)
	}
	if rec, err := check(t, open(t, js), token); !errors.Is(err, ErrNone) {
		t.Errorf("afterwards it is found as %+v: %v", rec, err)
	}
}

func TestTokenExpires(t *testing.T) {
	s := open(t, natstest.Streams(t))
	now := time.Now()
	s.now = func() time.Time { return now }
	token, _ := create(t, s, reader(time.Hour))
	now = now.Add(time.Hour - time.Minute)
	if _, err := check(t, s, token); err != nil {
		t.Errorf("before its end: %v", err)
	}
	now = now.Add(time.Minute + time.Second)
	if _, err := check(t, s, token); !errors.Is(err, ErrNone) {
		t.Errorf("after its end: %v", err)
	}
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all, err := s.List(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("just after its end listed are %+v: %v", all, err)
	}
	now = now.Add(kept)
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all, err := s.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("long after its end listed are %+v: %v", all, err)
	}
}

// The record of a share that has ended isn't kept for as long as those of other tokens: who may use a session makes as many as
// it likes, one after another.
func TestEndedSharesAreForgottenSoon(t *testing.T) {
	s := open(t, natstest.Streams(t))
	now := time.Now()
	s.now = func() time.Time { return now }
	var made []schemas.TokenRecord
	for range 3 {
		_, rec, err := s.Make(t.Context(), schemas.TokenRecord{Role: schemas.TokenWatcher, Tenant: "acme", Session: "web", Expires: now.Add(kept)})
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, rec)
	}
	create(t, s, reader(time.Hour))
	if err := s.End(t.Context(), made[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Revoke(t.Context(), made[1].ID); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		after time.Duration
		left  int
	}{{0, 4}, {keptBriefly + time.Second, 2}, {kept - 2*keptBriefly, 2}, {2 * keptBriefly, 0}} {
		now = now.Add(c.after)
		if err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if all, err := s.List(t.Context()); err != nil || len(all) != c.left {
			t.Errorf("%s later listed are %+v: %v", c.after, all, err)
		}
	}
	if err := s.End(t.Context(), made[0]); err != nil {
		t.Errorf("end one that is forgotten: %v", err)
	}
}

func TestUseIsWrittenOnceAMinute(t *testing.T) {
	js := natstest.Streams(t)
	one, two := open(t, js), open(t, js)
	now := time.Now()
	one.now = func() time.Time { return now }
	two.now = one.now
	token, _ := create(t, one, reader(time.Hour))
	for range 3 {
		for _, s := range []*Store{one, two} {
			if _, err := check(t, s, token); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := len(messages(t, js)); n != 2 { // that it was made, and used
		t.Errorf("after six uses within a minute the bucket has %d messages", n)
	}
	now = now.Add(usedEvery)
	if _, err := check(t, two, token); err != nil {
		t.Fatal(err)
	}
	if all, err := one.List(t.Context()); err != nil || !all[0].Used.Equal(now.UTC().Truncate(time.Second)) {
		t.Errorf("listed are %+v: %v", all, err)
	}
}

// A use that was read before a revocation and is written after it must not undo it.
func TestUseDoesNotUndoRevocation(t *testing.T) {
	js := natstest.Streams(t)
	s := open(t, js)
	token, made := create(t, s, reader(time.Hour))
	before, err := s.get(t.Context(), made.Digest)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Revoke(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
	if err := s.use(t.Context(), before, time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := check(t, s, token); !errors.Is(err, ErrNone) {
		t.Errorf("the token works again: %v", err)
	}
}

func TestTokenIsNotStored(t *testing.T) {
	js := natstest.Streams(t)
	s := open(t, js)
	token, made := create(t, s, reader(time.Hour))
	if _, err := check(t, s, token); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Revoke(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
	all := messages(t, js)
	if len(all) != 3 {
		t.Fatalf("the bucket has %d messages", len(all))
	}
	for _, m := range all {
		if bytes.Contains(m, []byte(token[len(schemas.TokenPrefix):])) {
			t.Errorf("the token is in %s", m)
		}
	}
}

func TestNoBucket(t *testing.T) {
	js := natstest.Connect(t, natstest.Serve(t).ClientURL())
	if _, err := Open(t.Context(), js, stream.NamesWith("")); !errors.Is(err, ErrNoBucket) {
		t.Errorf("without a bucket: %v", err)
	}
}

func TestListEndsWithItsContext(t *testing.T) {
	s := open(t, natstest.Streams(t))
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if all, err := s.List(ctx); err == nil {
		t.Errorf("listed are %v", all)
	}
}
