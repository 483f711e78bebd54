package shim

import (
	"errors"
	"testing"

	"github.com/diapause/diapause/events/failpoint"
)

// What a worker has armed counts on from order to order, and is off again when the next
// worker has nothing.
func TestPoints(t *testing.T) {
	var none *points
	if err := none.at(failpoint.ShimFrozen); err != nil {
		t.Errorf("a guard of a test has no points: %v", err)
	}
	p := &points{}
	reach := func(want bool) {
		t.Helper()
		if err := p.at(failpoint.ShimFrozen); errors.Is(err, failpoint.ErrAsked) != want {
			t.Errorf("it failed with %v, wanted to fail: %v", err, want)
		}
	}
	hear := func(text string) {
		t.Helper()
		if err := p.hear(text); err != nil {
			t.Fatal(err)
		}
	}
	reach(false)
	hear("shim.capture.frozen=error@2;shim.capture.frozen=error@4")
	reach(false)
	hear("shim.capture.frozen=error@2;shim.capture.frozen=error@4")
	reach(true)
	reach(false)
	hear("")
	reach(false)
	if n := testing.AllocsPerRun(100, func() { _ = p.at(failpoint.ShimFrozen) }); n != 0 {
		t.Errorf("nothing takes %v allocations", n)
	}
	if err := p.hear("shim.capture.frozen=dance"); err == nil {
		t.Error("it took in an unknown action")
	}
}
