package sense

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

func at(version uint64) statekv.Versioned {
	return statekv.Versioned{SessionRecord: schemas.SessionRecord{UID: "u", Version: version}}
}

// An answer about a session that comes to run waits until its driver has returned.
func TestObservedWaitsForThePID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Host: "h", Every: time.Second, Log: slog.New(slog.DiscardHandler)})
		arrived := s.Arriving(at(1))
		go func() {
			time.Sleep(arrivalWait / 2)
			arrived(7)
		}()
		if got := s.Observed(t.Context())["u"].PID; got != 7 {
			t.Errorf("the pid is %d, want 7", got)
		}
		if s.left(at(1)); s.Observed(t.Context())["u"].PID != 7 {
			t.Error("an older revision drops the pid")
		}
		if s.left(at(3)); len(s.Observed(t.Context())) > 0 {
			t.Error("a session that ended is still there")
		}
	})
}

// An answer isn't held up by a driver that hangs, or by one that failed.
func TestObservedGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Host: "h", Every: time.Second, Log: slog.New(slog.DiscardHandler)})
		arrived := s.Arriving(at(1))
		start := time.Now()
		if got := s.Observed(context.Background()); len(got) > 0 || time.Since(start) != arrivalWait {
			t.Errorf("after %v the answer is %v", time.Since(start), got)
		}
		arrived(0)
		if got := s.Observed(t.Context()); len(got) > 0 {
			t.Errorf("of a start that failed the answer is %v", got)
		}
		time.Sleep(2 * arrivalKept)
		s.Observed(t.Context())
		if len(s.arriving) > 0 {
			t.Error("an old arrival is kept")
		}
	})
}

// What two looks at a session say of its use.
func TestSigns(t *testing.T) {
	begin := sighting{at: time.Unix(100, 0)}
	for name, c := range map[string]struct {
		change func(*sighting)
		want   string
	}{
		"idle":                {func(*sighting) {}, ""},
		"wakes now and then":  {func(s *sighting) { s.seen.CPU = 40 * time.Millisecond }, ""},
		"works":               {func(s *sighting) { s.seen.CPU = 60 * time.Millisecond }, "cpu"},
		"in the foreground":   {func(s *sighting) { s.seen.Foreground = "vi" }, "foreground"},
		"runs a command":      {func(s *sighting) { s.seen.Execs = 1 }, "exec"},
		"has a connection":    {func(s *sighting) { s.seen.Inbound = 1 }, "tcp"},
		"a clock that jumped": {func(s *sighting) { s.at, s.seen.CPU = begin.at, time.Hour }, ""},
	} {
		next := begin
		next.at = begin.at.Add(time.Second)
		c.change(&next)
		got := ""
		for _, s := range signs(begin, next) {
			got += s.key
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
