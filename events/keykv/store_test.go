package keykv_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/diapause/diapause/events/keykv"
	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

func open(t *testing.T) *keykv.Store {
	t.Helper()
	keys, err := keykv.Open(t.Context(), natstest.Streams(t), stream.NamesWith(""))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func add(name string) func(*schemas.TenantKeys, time.Time) (bool, error) {
	return func(k *schemas.TenantKeys, now time.Time) (bool, error) {
		k.Readers = append(k.Readers, schemas.KeyReader{Recipient: name, Added: now})
		k.Change = schemas.KeyChange{Type: "added", Text: name, Actor: "test"}
		return true, nil
	}
}

// Many writers of one record: none of their changes is lost.
func TestUpdateRace(t *testing.T) {
	s := open(t)
	const writers, each = 6, 10
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if _, err := s.Update(t.Context(), "acme", add(fmt.Sprint(w, "-", i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got, err := s.Get(t.Context(), "acme")
	if err != nil || got.Version != writers*each || len(got.Readers) != writers*each || got.Change.ID == "" || got.Change.At.IsZero() {
		t.Errorf("%d readers at version %d, change %+v, error %v", len(got.Readers), got.Version, got.Change, err)
	}
}

func TestRecordsAreApart(t *testing.T) {
	s := open(t)
	for _, tenant := range []schemas.Tenant{"", "fleet", "acme"} {
		if v, err := s.Get(t.Context(), tenant); err != nil || v.Version != 0 || v.Tenant != tenant {
			t.Fatalf("before: %+v, error %v", v, err)
		}
		if _, err := s.Update(t.Context(), tenant, add("of "+string(tenant))); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[schemas.Tenant]string{}
	ctx, stop := context.WithCancel(t.Context())
	if err := s.Watch(ctx, func(v keykv.Versioned) { seen[v.Tenant] = v.Readers[0].Recipient }, stop); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 3 || seen[""] != "of " || seen["fleet"] != "of fleet" {
		t.Errorf("seen %v", seen)
	}
}

func TestUpdateRefused(t *testing.T) {
	s := open(t)
	no := errors.New("no")
	v, err := s.Update(t.Context(), "acme", func(*schemas.TenantKeys, time.Time) (bool, error) { return true, no })
	if !errors.Is(err, no) {
		t.Errorf("error %v", err)
	}
	v, err = s.Update(t.Context(), "acme", func(k *schemas.TenantKeys, _ time.Time) (bool, error) { k.Generation = 9; return false, nil })
	if err != nil || v.Generation != 0 || v.Version != 0 {
		t.Errorf("%+v, error %v", v, err)
	}
}
