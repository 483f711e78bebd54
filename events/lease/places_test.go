package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/diapause/diapause/events/lease"
	"github.com/diapause/diapause/schemas"
)

// Two places that have the id of one host: the second one is told, and gets the lease when the first doesn't renew it
// any more. The first is told when it comes back. A process of the same place takes the lease at once.
func TestTwoPlaces(t *testing.T) {
	s := open(t)
	const term = 3 * time.Second // far more than a renewal takes on a busy machine
	in := func(place string, renewed chan<- lease.Renewal) *lease.Holder {
		h := holder(s, term, func(r lease.Renewal) {
			select {
			case renewed <- r:
			default:
			}
		})
		h.Place = place
		return h
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	renewed := make(chan lease.Renewal, 1)
	first := in("here", renewed)
	if err := first.Take(ctx); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- first.Serve(ctx) }()
	<-renewed
	if err := in("there", nil).Await(t.Context()); !errors.Is(err, lease.ErrElsewhere) {
		t.Errorf("a second place awaits a lease that is renewed: %v", err)
	}
	second := in("there", nil)
	if err := second.Take(t.Context()); !errors.Is(err, lease.ErrElsewhere) || schemas.HintOf(err) == "" {
		t.Fatalf("a second place takes a lease that is renewed: %v", err)
	}
	stop()
	if err := <-served; err != nil {
		t.Errorf("the first one, which held it all the while, ends with %v", err)
	}

	second = in("there", renewed)
	if err := second.Take(t.Context()); err != nil {
		t.Fatalf("a second place takes a lease that isn't renewed: %v", err)
	}
	ctx, stop = context.WithCancel(t.Context())
	defer stop()
	go func() { served <- second.Serve(ctx) }()
	if err := first.Serve(t.Context()); !errors.Is(err, lease.ErrElsewhere) {
		t.Errorf("the first one comes back, and ends with %v", err)
	}
	stop()
	if err := <-served; err != nil {
		t.Errorf("the second one ends with %v", err)
	}
	if v, err := s.Get(t.Context(), "a"); err != nil || v.Incarnation != 2 {
		t.Errorf("the lease is %+v, %v", v.HostLease, err)
	}

	if err := in("", nil).Await(t.Context()); err != nil {
		t.Errorf("without a place it awaits: %v", err)
	}
	again := in("there", nil)
	if err := again.Take(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v, err := s.Get(t.Context(), "a"); err != nil || v.Incarnation != 3 {
		t.Errorf("taken again in its place the lease is %+v, %v", v.HostLease, err)
	}
}
