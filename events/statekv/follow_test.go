package statekv_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// of makes a session of a tenant.
func of(t *testing.T, s *statekv.Store, tenant schemas.Tenant, id schemas.SessionID) statekv.Versioned {
	t.Helper()
	tr := newSession()
	tr.Set.New = &schemas.NewSession{UID: schemas.UID(id), Tenant: tenant, Session: id}
	return mustSwap(t, s, statekv.Versioned{}, tr)
}

func line(v statekv.Versioned) string { return fmt.Sprintf("%s %s", v.Name(), v.Transition.Type) }

// The log of one tenant has all revisions of its sessions, and no others.
func TestLogOf(t *testing.T) {
	s, _ := open(t, natstest.Serve(t).ClientURL())
	a := of(t, s, "acme", "a")
	of(t, s, "other", "b")
	mustSwap(t, s, a, schemas.Transition{Type: schemas.TStarted})
	of(t, s, "acme", "c")
	of(t, s, "other", "d")
	for tenant, want := range map[schemas.Tenant][]string{
		"acme":    {"acme/a run", "acme/a started", "acme/c run"},
		"other":   {"other/b run", "other/d run"},
		"nothing": nil,
		"":        {"acme/a run", "other/b run", "acme/a started", "acme/c run", "other/d run"},
	} {
		var got []string
		err := s.LogOf(t.Context(), tenant, func(v statekv.Versioned) error {
			got = append(got, line(v))
			return nil
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("tenant %q: %q, %v, want %q", tenant, got, err, want)
		}
	}
	enough := errors.New("enough")
	if err := s.LogOf(t.Context(), "acme", func(statekv.Versioned) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("what fails isn't said: %v", err)
	}
}

// Who follows the log has all of it, in its order, and what comes.
func TestFollow(t *testing.T) {
	s, _ := open(t, natstest.Serve(t).ClientURL())
	a := of(t, s, "acme", "a")
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	heard, caughtUp, done := make(chan string, 10), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- s.Follow(ctx, func(v statekv.Versioned) error {
			heard <- line(v)
			return nil
		}, func() { close(caughtUp) })
	}()
	<-caughtUp
	mustSwap(t, s, a, schemas.Transition{Type: schemas.TStarted})
	for _, want := range []string{"acme/a run", "acme/a started"} {
		select {
		case got := <-heard:
			if got != want {
				t.Errorf("heard %q, want %q", got, want)
			}
		case <-ctx.Done():
			t.Fatalf("never heard %q", want)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Every swap is told of once, with what came of it.
func TestSwapped(t *testing.T) {
	s, _ := open(t, natstest.Serve(t).ClientURL())
	var told []statekv.Swapped
	s.Swapped = func(w statekv.Swapped) { told = append(told, w) }
	first := mustSwap(t, s, statekv.Versioned{}, newSession())
	_, conflict := s.Swap(t.Context(), statekv.Versioned{}, newSession())
	_, illegal := s.Swap(t.Context(), first, schemas.Transition{Type: schemas.TResumed})
	if !errors.Is(conflict, statekv.ErrConflict) || !errors.Is(illegal, session.ErrIllegal) {
		t.Fatalf("%v, %v", conflict, illegal)
	}
	if len(told) != 3 || told[0].Err != nil || told[0].After.Version != 1 || told[0].Type != schemas.TRun || told[0].Took <= 0 ||
		!errors.Is(told[1].Err, statekv.ErrConflict) || told[1].After.Version != 0 ||
		!errors.Is(told[2].Err, session.ErrIllegal) || told[2].Before.Version != 1 {
		t.Errorf("told %+v", told)
	}
}
