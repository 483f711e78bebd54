package lease_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/diapause/diapause/events/lease"
	"github.com/diapause/diapause/schemas"
)

// candidate is one who would have an office.
type candidate struct {
	told chan bool
	stop func()
}

func stand(t *testing.T, s *lease.Store, name schemas.HostID) candidate {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := candidate{told: make(chan bool, 100)}
	done := make(chan error, 1)
	o := &lease.Office{Store: s, Holder: name, Term: 400 * time.Millisecond, Log: slog.New(slog.DiscardHandler)}
	go func() { done <- o.Serve(ctx, func(held bool) { c.told <- held }) }()
	c.stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() { cancel() })
	return c
}

func (c candidate) held(t *testing.T, want bool) {
	t.Helper()
	for {
		select {
		case held := <-c.told:
			if held == want {
				return
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("it never hears that it holds the office: %v", want)
		}
	}
}

// One holds the office; when it gives it back, another has it at once.
func TestOfficeIsHandedOver(t *testing.T) {
	s := openOffice(t)
	a := stand(t, s, "a")
	a.held(t, true)
	b := stand(t, s, "b")
	v, err := s.Get(t.Context(), "")
	if err != nil || v.Host != "a" {
		t.Fatalf("%+v, %v", v, err)
	}
	a.stop()
	b.held(t, true)
	b.stop()
	if v, err = s.Get(t.Context(), ""); err != nil || v.State != schemas.LeaseExpired {
		t.Errorf("no candidate is left, and it is %s, %v", v.State, err)
	}
}

// A holder that is gone without a word is waited for, and then replaced; a new process
// of the same name isn't waited for.
func TestOfficeRunsOut(t *testing.T) {
	s := openOffice(t)
	gone := stand(t, s, "gone")
	gone.held(t, true)
	gone.stop()
	v, err := s.Get(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	crashed := v.HostLease
	crashed.State, crashed.Host, crashed.TermMS = schemas.LeaseHeld, "crashed", time.Hour.Milliseconds()
	if v, err = s.Write(t.Context(), v, crashed); err != nil {
		t.Fatal(err)
	}
	again := stand(t, s, "crashed")
	again.held(t, true)
	again.stop()
	if v, err = s.Get(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	crashed.TermMS = 100
	if _, err = s.Write(t.Context(), v, crashed); err != nil {
		t.Fatal(err)
	}
	other := stand(t, s, "other")
	other.held(t, true)
	other.stop()
}

// Who has lost the office to another hears of it.
func TestOfficeIsLost(t *testing.T) {
	s := openOffice(t)
	a := stand(t, s, "a")
	a.held(t, true)
	for {
		v, err := s.Get(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		taken := v.HostLease
		taken.Host, taken.By, taken.TermMS = "b", "b", time.Hour.Milliseconds()
		if _, err := s.Write(t.Context(), v, taken); err == nil {
			break // else it was renewed in this moment
		}
	}
	a.held(t, false)
	a.stop()
}
