package search

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
)

// warmYard has sessions with stored indexes, an hour apart, and a host that has just come up.
func warmYard(t *testing.T, sessions int) *yard {
	t.Helper()
	y := newYard(t)
	for i := range sessions {
		s := y.session(fmt.Sprintf("work%d", i))
		s.time = noon.Add(time.Duration(i) * time.Hour)
		fill(y, s, 5, fmt.Sprintf("needle in place%d", i))
		if err := y.update(t.Context(), s.Name(), false); err != nil {
			t.Fatal(err)
		}
	}
	y.starts(y.key)
	return y
}

// known counts the sessions that a search needn't look up.
func (y *yard) known() (n int) {
	for _, s := range y.all() {
		if _, ok := y.cache.knows(s); ok {
			n++
		}
	}
	return n
}

// After a start what was recorded before is summed up without a search, but for what more is recorded of, and for what is of other hosts. The
// indexes don't stay open.
func TestWarm(t *testing.T) {
	y := warmYard(t, 6)
	y.records["work4"].State, y.records["work5"].Host = schemas.Running, "other"
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- y.Serve(ctx) }()
	for wait := time.Now().Add(time.Minute); y.known() < 4; time.Sleep(time.Millisecond) {
		if time.Now().After(wait) {
			t.Fatalf("%d sessions are summed up", y.known())
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if y.known() != 4 || y.cache.opened.Len() != 0 || y.cache.has(y.records["work5"].UID) {
		t.Errorf("%d sessions are summed up, %d indexes are open", y.known(), y.cache.opened.Len())
	}
	delete(y.records, "work4")
	delete(y.records, "work5")
	y.store.gets = 0
	if y.want(words("nowhere"), ""); y.store.gets != 0 {
		t.Errorf("the first search reads %d objects for what is nowhere", y.store.gets)
	}
	y.want(words("place2"), "work2#3 output: needle in place2\n")
}

// Of more sessions than there is room for, those that changed last are summed up.
func TestWarmIsBounded(t *testing.T) {
	y := warmYard(t, 6)
	y.cache.most = 2 * warmMemory * entrySize
	if all, err := y.ended(t.Context()); err != nil || len(all) != 2 || all[0].name.String() != "work5" {
		t.Errorf("it lists %v, %v", all, err)
	}
	y.cache.most = Usual
	y.warm(t.Context())
	sum := y.cache.sum
	y.starts(y.key)
	y.cache.most = sum
	for range 2 {
		y.warm(t.Context())
		if n := len(y.cache.all); n < 3 || n > 4 || !y.cache.has(y.records["work5"].UID) || y.cache.has(y.records["work0"].UID) {
			t.Errorf("%d sessions are summed up where half of 6 have room", n)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	y.starts(y.key)
	if y.warm(gone); len(y.cache.all) > 1 {
		t.Errorf("%d sessions are looked at after the end", len(y.cache.all))
	}
}
