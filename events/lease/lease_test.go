package lease_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/diapause/diapause/events/lease"
	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

func open(t *testing.T) *lease.Store {
	t.Helper()
	leases, err := lease.Open(t.Context(), natstest.Streams(t), stream.NamesWith(""))
	if err != nil {
		t.Fatal(err)
	}
	return leases
}

func openOffice(t *testing.T) *lease.Store {
	t.Helper()
	s, err := lease.OpenOffice(t.Context(), natstest.Streams(t), stream.NamesWith(""), "scheduler")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func holder(s *lease.Store, term time.Duration, renewed func(lease.Renewal)) *lease.Holder {
	return &lease.Holder{Store: s, Host: "a", Term: term, Log: slog.New(slog.DiscardHandler), Renewed: renewed}
}

// A lease is taken, renewed, ended by an observer that knows its last revision, and
// then taken again by its holder with another incarnation.
func TestLife(t *testing.T) {
	s := open(t)
	renewals := make(chan lease.Renewal, 100)
	h := holder(s, 300*time.Millisecond, func(r lease.Renewal) { renewals <- r })
	if err := h.Take(t.Context()); err != nil {
		t.Fatal(err)
	}
	first, err := s.Get(t.Context(), "a")
	if err != nil || first.Incarnation != 1 || first.State != schemas.LeaseHeld {
		t.Fatalf("after it was taken: %+v, error %v", first, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Serve(ctx) }()
	for range 3 {
		<-renewals
	}
	if _, err := s.Expire(t.Context(), first, "observer"); !errors.Is(err, lease.ErrHeld) {
		t.Errorf("a renewed lease was ended: error %v", err)
	}
	for { // between two renewals
		now, err := s.Get(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		ended, err := s.Expire(t.Context(), now, "observer")
		if errors.Is(err, lease.ErrHeld) {
			continue
		}
		if err != nil || ended.State != schemas.LeaseExpired {
			t.Fatalf("ended: %+v, error %v", ended, err)
		}
		break
	}
	for r := range renewals {
		if r.Incarnation == 2 {
			break
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if last := h.Last(); last.Incarnation != 2 || last.Until.Sub(lease.Now()) > lease.FenceAfter(300*time.Millisecond) {
		t.Errorf("last renewal %+v at %v", last, lease.Now())
	}
}

// An observer sees a lease live while it is renewed, and run out when it isn't.
func TestObserver(t *testing.T) {
	s := open(t)
	h := holder(s, 600*time.Millisecond, nil)
	if err := h.Take(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	verdicts := make(chan lease.Verdict, 1000)
	o := &lease.Observer{Store: s, Every: 200 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
		Looked: func(_ context.Context, all []lease.Sighting) { verdicts <- all[0].Verdict }}
	done := make(chan error, 1)
	go func() { done <- o.Serve(ctx) }()
	if v := <-verdicts; v != lease.Live {
		t.Errorf("just taken: %s", v)
	}
	for v := range verdicts { // it isn't renewed
		if v == lease.RunOut {
			break
		}
	}
	if since, gone := o.Gone("a"); !gone || since.IsZero() {
		t.Errorf("gone %v since %v", gone, since)
	}
	if _, gone := o.Gone("b"); gone {
		t.Error("a host without a lease counts as gone")
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A bucket that was put back ends before the renewal that its holder knows to be stored; one
// that goes on doesn't.
func TestWentBack(t *testing.T) {
	js := natstest.Streams(t)
	names := stream.NamesWith("")
	s, err := lease.Open(t.Context(), js, names)
	if err != nil {
		t.Fatal(err)
	}
	h := holder(s, time.Minute, nil)
	if err := h.Take(t.Context()); err != nil {
		t.Fatal(err)
	}
	if back, err := h.WentBack(t.Context()); back || err != nil {
		t.Errorf("after it was taken: %v, %v", back, err)
	}
	if err := js.DeleteKeyValue(t.Context(), names.Leases()); err != nil {
		t.Fatal(err)
	}
	if err := stream.Ensure(t.Context(), js, names, 1); err != nil {
		t.Fatal(err)
	}
	if back, err := h.WentBack(t.Context()); !back || err != nil {
		t.Errorf("after the bucket was lost: %v, %v", back, err)
	}
}

// An observer of leases that are renewed asks NATS for nothing between its readings; of one
// that isn't renewed it reads.
func TestObserverWaitsForNews(t *testing.T) {
	js := natstest.Streams(t)
	names := stream.NamesWith("")
	s, err := lease.Open(t.Context(), js, names)
	if err != nil {
		t.Fatal(err)
	}
	renewals := make(chan lease.Renewal, 100)
	h := holder(s, 900*time.Millisecond, func(r lease.Renewal) { renewals <- r })
	if err := h.Take(t.Context()); err != nil {
		t.Fatal(err)
	}
	holding, release := context.WithCancel(t.Context())
	held := make(chan error, 1)
	go func() { held <- h.Serve(holding) }()
	ctx, stop := context.WithCancel(t.Context())
	looks, verdicts := make(chan struct{}, 1000), make(chan lease.Verdict, 1000)
	o := &lease.Observer{Store: s, Every: 20 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
		Looked: func(_ context.Context, all []lease.Sighting) { looks <- struct{}{}; verdicts <- all[0].Verdict }}
	done := make(chan error, 1)
	go func() { done <- o.Serve(ctx) }()
	<-looks
	for len(renewals) > 0 {
		<-renewals
	}
	before, began := len(looks), time.Now()
	for range 5 { // 1.5 s: with a look each 20 ms there would be 75
		<-renewals
	}
	late := time.Since(began) - 5*300*time.Millisecond // then it looks as often as it is asked to
	if n, most := len(looks)-before, 40+int(max(late, 0)/(20*time.Millisecond)); n > most {
		t.Errorf("%d looks within 5 renewals, want %d at most", n, most)
	}
	release()
	if err := <-held; err != nil {
		t.Error(err)
	}
	for v := range verdicts {
		if v == lease.RunOut {
			break
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
