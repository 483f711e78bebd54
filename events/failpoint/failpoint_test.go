package failpoint_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/diapause/diapause/events/failpoint"
)

func TestNilSetDoesNothing(t *testing.T) {
	var s *failpoint.Set
	for _, n := range failpoint.Names() {
		if err := s.At(t.Context(), n); err != nil {
			t.Errorf("%s: %v", n, err)
		}
	}
	if n := testing.AllocsPerRun(100, func() { _ = s.At(context.Background(), failpoint.WorkerFound) }); n != 0 {
		t.Errorf("a nil set takes %v allocations", n)
	}
}

func TestNamesAreEachThereOnce(t *testing.T) {
	names := failpoint.Names()
	slices.Sort(names)
	if len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("a name is there twice: %v", names)
	}
}

// What is armed happens at its time, once.
func TestParse(t *testing.T) {
	s, err := failpoint.Parse("worker.found=error@2; worker.reap.heard = error")
	if err == nil {
		t.Errorf("blanks in an item: %v", s)
	}
	s, err = failpoint.Parse("worker.found=error@2; worker.reap.heard=error;worker.found=error@3")
	if err != nil {
		t.Fatal(err)
	}
	var got []bool
	for range 4 {
		err := s.At(t.Context(), failpoint.WorkerFound)
		if err != nil && (!errors.Is(err, failpoint.ErrAsked) || !strings.Contains(err.Error(), "worker.found")) {
			t.Errorf("it says %v", err)
		}
		got = append(got, err != nil)
	}
	if !slices.Equal(got, []bool{false, true, true, false}) || s.Reached(failpoint.WorkerFound) != 4 {
		t.Errorf("failed: %v, reached %d times", got, s.Reached(failpoint.WorkerFound))
	}
	if err := s.At(t.Context(), failpoint.ReapHeard); err == nil {
		t.Error("without a number it isn't the first time")
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{
		"worker.found", "worker.lost=error", "worker.found=explode", "worker.found=error@0", "worker.found=error@x",
		"worker.found=pause", "worker.found=pause:-1s", ";",
	} {
		if s, err := failpoint.Parse(text); err == nil {
			t.Errorf("%q: %v", text, s)
		}
	}
	if s, err := failpoint.Parse(" "); s != nil || err != nil {
		t.Errorf("nothing: %v, %v", s, err)
	}
}

func TestPauseAndHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := failpoint.Parse("worker.found=pause:10s;worker.claimed=hang")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		if err := s.At(ctx, failpoint.WorkerFound); err != nil || time.Since(began) != 10*time.Second {
			t.Errorf("paused for %v: %v", time.Since(began), err)
		}
		if err := s.At(ctx, failpoint.WorkerClaimed); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("hanging ends with %v", err)
		}
	})
}
