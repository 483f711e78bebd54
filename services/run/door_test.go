package run

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// Activity is taken of sessions that the scheduler knows, of those whose record is there, and of those of
// which that can't be told; what is asked for beyond that is bounded, and counted once.
func TestDoor(t *testing.T) {
	name := func(s string) schemas.Name { return schemas.Name{Tenant: "default", Session: schemas.SessionID(s)} }
	asked, unheard := 0, 0
	d := newDoor(func(n schemas.Name) bool { return n == name("known") }, func(_ context.Context, n schemas.Name) (v statekv.Versioned, err error) {
		asked++
		switch n {
		case name("new"):
			v.State = schemas.Running
		case name("gone"):
			v.State = schemas.Deleted
		case name("unclear"):
			return v, errors.New("no answer")
		default:
			return v, statekv.ErrNoSession
		}
		return v, nil
	}, func() { unheard++ })
	for _, c := range []struct {
		name           string
		admitted       bool
		asked, unheard int
	}{
		{"known", true, 0, 0}, {"new", true, 1, 0}, {"unclear", true, 2, 0}, {"gone", false, 3, 1}, {"missing", false, 4, 2},
		{"missing", false, 5, 2}, {"*", false, 5, 3}, {"", false, 5, 4},
	} {
		if got := d.admits(name(c.name)); got != c.admitted || asked != c.asked || unheard != c.unheard {
			t.Errorf("%q: %v after %d reads and %d counts; want %v after %d and %d", c.name, got, asked, unheard, c.admitted, c.asked, c.unheard)
		}
	}
	for i := range 3 * remembered {
		if d.admits(name(fmt.Sprint("flood", i))) {
			t.Fatal("it is admitted")
		}
	}
	if asked > remembered || len(d.counted) > remembered || unheard != 4+3*remembered {
		t.Errorf("%d were read, %d are remembered, %d were counted", asked, len(d.counted), unheard)
	}
	if !d.admits(name("known")) {
		t.Error("a session that is known isn't admitted in a flood")
	}
}
