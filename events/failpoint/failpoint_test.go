package failpoint_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
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

// What is armed for another process is handed to it in words, and what is to happen once
// happens in one of those who read them, and leaves a mark.
func TestTextForAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	ours, err := failpoint.Parse("worker.found=error;shim.capture.frozen=error;shim.stop.starts=pause:10s@2; once=" + dir)
	if err != nil {
		t.Fatal(err)
	}
	text := ours.Text("shim.")
	if want := "shim.capture.frozen=error;shim.stop.starts=pause:10s@2;once=" + dir; text != want {
		t.Errorf("the text is %q, want %q", text, want)
	}
	if other := ours.Text("docker."); other != "" || (*failpoint.Set)(nil).Text("shim.") != "" {
		t.Errorf("nothing is %q", other)
	}
	for i, want := range []bool{true, false} {
		theirs, err := failpoint.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := theirs.At(t.Context(), failpoint.ShimFrozen); errors.Is(err, failpoint.ErrAsked) != want {
			t.Errorf("process %d: %v", i, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "shim.capture.frozen@1")); err != nil {
		t.Errorf("it left no mark: %v", err)
	}
	none, err := failpoint.Parse("worker.found=error;once=" + filepath.Join(dir, "none"))
	if err != nil {
		t.Fatal(err)
	}
	if err := none.At(t.Context(), failpoint.WorkerFound); err == nil || errors.Is(err, failpoint.ErrAsked) {
		t.Errorf("without a directory: %v", err)
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
