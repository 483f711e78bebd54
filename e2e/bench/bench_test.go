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
)

// What benchstat takes for a result: a name, a count, and pairs of value and unit.
var benchLine = regexp.MustCompile(`^Benchmark[A-Z]\w*(/[a-z]+=[\w-]+)* \t1(\t\d+ [A-Za-z-]+/op)+\n$`)

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
	if table := string(Table(ctx, all, 1, "0.00")); strings.Count(table, "\n| 16 MB |") != len(all) {
		t.Errorf("the table lacks rows:\n%s", table)
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
