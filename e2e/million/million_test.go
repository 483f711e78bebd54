package million

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/events/stream"
)

func TestMain(m *testing.M) {
	if code, ok := Child(); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// A small run finds everything that it looks for. What the figures are, is no matter.
func TestRun(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	const n = 2000
	f, err := Run(ctx, Options{Sessions: n, Load: time.Second, Single: 200, Dir: t.TempDir(), Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	for i, fold := range f.Fold {
		probes := uint64(i) + 1
		// Each has its input and heartbeat, and one in twenty a lease. Each scheduler that ran before has left a
		// probe.
		if fold.Sessions != n || fold.Records.Messages != n || fold.Activity.Messages != 2*n+n/20 || f.Bare[i].Messages != 2*n+n/20+probes || f.BareLog[i].Messages != n {
			t.Errorf("round %d: %+v; a bare consumer read %d and %d messages", i, fold, f.Bare[i].Messages, f.BareLog[i].Messages)
		}
	}
	if f.Woken.Decisions == 0 || f.Woken.Records == 0 {
		t.Errorf("%d decisions were timed while sleepers were woken, at %.0f records a second", f.Woken.Decisions, f.Woken.Records)
	}
	for _, part := range []Spread{f.One.Heard, f.One.Written} {
		if part.Median <= 0 || part.Worst < part.P99 || part.P99 < part.Median {
			t.Errorf("a part of the lateness: %+v", part)
		}
	}
	if f.One.Decisions == 0 || f.Memory == 0 || f.Disk == 0 {
		t.Errorf("%d decisions were timed, the server has %d bytes of memory and %d of disk", f.One.Decisions, f.Memory, f.Disk)
	}
	table := string(Table(ctx, f, "0", stream.Partitions))
	for _, want := range []string{"# Deciding about 2000 sessions", "decisions late, 99th percentile", "a scheduler's memory for each session"} {
		if !strings.Contains(table, want) || strings.Contains(table, "%!") {
			t.Errorf("the table has no %q, or is written wrongly:\n%s", want, table)
		}
	}
}

// What a server holds is found at every moment that is asked for.
func TestMemory(t *testing.T) {
	m, err := MeasureMemory(t.Context(), t.TempDir(), 500, Server{GC: 25, Trims: true}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if m.Empty <= 0 || m.Filled < m.Empty || m.Quiet < m.Empty || m.Live <= 0 || m.Restarted <= 0 || m.Each(m.Filled) <= 0 {
		t.Errorf("%+v", m)
	}
}
