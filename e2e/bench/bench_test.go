package bench

import (
	"bytes"
	"context"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/diapause/diapause/e2e/million"
	"github.com/diapause/diapause/services/ingress"
)

func TestMain(m *testing.M) {
	if code, ok := million.Child(); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// What benchstat takes for a result: a name, a count, and pairs of value and unit.
var benchLine = regexp.MustCompile(`^Benchmark[A-Z]\w*(/[a-z]+=[\w-]+)* \t1(\t\d+ [A-Za-z_-]+/op)+\n$`)

// TestRun measures once with a small process: everything works, and the lines
// can be read.
func TestRun(t *testing.T) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	all, err := Run(ctx, []int{16}, 1, func(m Measurement) error {
		var b bytes.Buffer
		if err := m.Line(&b); err != nil {
			return err
		}
		if !benchLine.MatchString(b.String()) {
			t.Errorf("not a benchmark's line: %q", b.String())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range all {
		names = append(names, m.Op+" "+m.Who+" "+m.What)
		if m.Total <= 0 || len(m.Stages) < 3 {
			t.Errorf("%s: %s in all, stages %v", m.name(), m.Total, m.Stages)
		}
		if m.Op == "Suspend" && (m.Stored < 1<<10 || m.Stored > 32<<20) {
			t.Errorf("%s: %d bytes stored of 16 MB", m.name(), m.Stored)
		}
	}
	want := "Suspend diapause first,Resume diapause first,Suspend diapause again,Resume diapause again,Suspend today first,Resume today first"
	if got := strings.Join(names, ","); got != want {
		t.Errorf("measured %s, want %s", got, want)
	}
	if table := string(Table(ctx, all, 1, "0.00")); strings.Count(table, "\n| 16 MB |") != len(all)+2 {
		t.Errorf("the table lacks rows:\n%s", table)
	}
}

// TestSessions measures few sessions for a short time.
func TestSessions(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := MeasureSessions(ctx, Size{Small: 1, Idle: 2, Together: 3, Forks: 5, ForksMB: 10, Rehearse: 1, Settle: time.Second / 4, Over: time.Second / 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", c)
	for what, ok := range map[string]bool{
		"small":     c.Small.Run > 0 && c.Small.Suspend > 0 && c.Small.Frozen > 0 && c.Small.Ensure > 0 && c.Small.Restore > 0,
		"idle":      c.Idle.UpMemory > 1<<20 && c.Idle.ShimsMemory > 1<<10 && c.Idle.UpCPU >= 0,
		"shells":    c.Shells.UpMemory > 1<<20 && c.Shells.ShimsMemory > 1<<10 && c.Shells.Sessions == 2,
		"rehearsed": len(c.Rehearsals) == 2 && c.Rehearsals[1].Took > 0 && c.Rehearsals[1].Suspend > c.Rehearsals[1].Waited,
		"together":  c.Together.Suspend.Last >= c.Together.Suspend.Median && c.Together.Wake.Median > 0 && c.Together.UpPeak > 1<<20,
	} {
		if !ok {
			t.Errorf("%s: the figures can't be: %+v", what, c)
		}
	}
	if table := string(c.Table(ctx, "0.00")); strings.Contains(table, "%!") {
		t.Errorf("the table is wrong:\n%s", table)
	}
}

// TestLosses loses a host once.
func TestLosses(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	l, err := MeasureLosses(t.Context(), 5*time.Second, 1)
	if err != nil {
		t.Fatal(err)
	}
	if table := string(l.Table(t.Context(), "0.00")); len(l.Took) != 1 || l.Took[0] <= 0 || strings.Contains(table, "%!") {
		t.Errorf("the figures can't be: %+v\n%s", l, table)
	}
}

// TestForward carries little over each way.
func TestForward(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	all, err := MeasureForward(t.Context(), 4, 1)
	if err != nil {
		t.Fatal(err)
	}
	table := string(all.Table(t.Context(), "0.00"))
	if len(all.Ways) != 5 || strings.Contains(table, "%!") {
		t.Errorf("measured %+v\n%s", all, table)
	}
	for _, f := range all.Ways {
		if f.Down <= 0 || f.Up <= 0 || f.First <= 0 {
			t.Errorf("the figures can't be: %+v", f)
		}
	}
}

// TestWakes has few requests resume a session, and many in the long tests. None fails.
func TestWakes(t *testing.T) {
	loads, warm := []WakeLoad{{Sessions: 1, Requests: 2}}, warmTurn
	if os.Getenv("DIAPAUSE_LONG") != "" {
		loads = []WakeLoad{{Sessions: 20, Requests: 10_000}}
	}
	all, err := MeasureWakes(t.Context(), loads, warm)
	if err != nil {
		t.Fatal(err)
	}
	table := string(all.Table(t.Context(), "0.00"))
	t.Log(table)
	for _, l := range all.Loads {
		if l.Failed != 0 || len(l.All) != l.Requests {
			t.Errorf("%d of %d first requests failed, %d were measured", l.Failed, l.Requests, len(l.All))
		}
		for _, stage := range ingress.Stages() {
			if len(l.Stages[stage]) != l.Requests {
				t.Errorf("the stage %s was told of %d times, want %d", stage, len(l.Stages[stage]), l.Requests)
			}
		}
	}
	if len(all.Warm.Ways) != 3 || strings.Contains(table, "%!") {
		t.Errorf("measured %+v", all.Warm)
	}
}

func TestMiddle(t *testing.T) {
	var rounds []Measurement
	for _, d := range []time.Duration{3, 1, 2} {
		rounds = append(rounds, Measurement{Op: "Suspend", Total: d, Stored: int64(10 * d), Stages: []Stage{{"dump", d * 2}}})
	}
	m := middle(rounds)
	if m.Total != 2 || m.Stored != 20 || m.Stages[0].Took != 4 || rounds[0].Stages[0].Took != 6 {
		t.Errorf("the median of %v is %+v", rounds, m)
	}
}

// TestFleet measures a moment of all that a fleet is worked out from.
func TestFleet(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	f, err := MeasureFleet(ctx, FleetSize{Together: 2, Over: time.Second / 2, Idle: 1, Records: []int{200}, Servers: []million.Server{{GC: 25}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range f.Rates {
		if r.Rounds < 2 || r.Minute() <= 0 || r.Each() <= 0 {
			t.Errorf("%+v", r)
		}
	}
	if m := f.Messages; m.Round.Stored < 5 || m.Round.Messages < m.Round.Stored {
		t.Errorf("a round is %+v", m.Round)
	}
	if text := string(f.Table(ctx, "0.00", 0)); !strings.Contains(text, "The bottleneck is ") || strings.Contains(text, "NaN") || strings.Contains(text, "%!") {
		t.Errorf("the document is\n%s", text)
	}
}
