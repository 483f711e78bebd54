package criu

import (
	"fmt"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// BenchmarkRehearsal captures sessions that then run on, without a rehearsal and with one: one process with
// 1 MB of memory, and 100 with 1 GB in all. "took" is the rehearsal alone, and "of-rehearsal_wait" how long the rest of
// the suspend waited for it; "least" is the shortest suspend:
//
//	go test ./criu -run '^$' -bench Rehearsal -benchtime 5x
func BenchmarkRehearsal(b *testing.B) {
	for _, of := range []struct{ processes, each int }{{1, 1 << 20}, {100, 10 << 20}} {
		b.Run(fmt.Sprint(of.processes), func(b *testing.B) {
			s := bench(b, "", schemas.Spec{Command: drivertest.Forked(of.processes, of.each, "/ready")})
			for _, which := range []schemas.Rehearse{schemas.RehearseNever, schemas.RehearseAlways} {
				b.Run(string(which), func(b *testing.B) { benchRehearsal(b, s, which) })
			}
		})
	}
}

func benchRehearsal(b *testing.B, s *benched, which schemas.Rehearse) {
	sums := map[string]time.Duration{}
	least := map[string]time.Duration{}
	add := func(name string, t time.Duration) {
		sums[name] += t
		if was, there := least[name]; !there || t < was {
			least[name] = t
		}
	}
	for b.Loop() {
		laps, c, _ := s.suspend(b, which)
		add("took", c.RehearsalTook)
		add("suspend", laps.Total())
		for _, p := range laps.Parts() {
			add("of-"+p.Name, p.Took)
		}
		if err := s.d.Thaw(b.Context(), s.next()); err != nil {
			b.Fatal(err)
		}
	}
	ms := func(t time.Duration) float64 { return float64(t.Microseconds()) / 1000 }
	for name, t := range sums {
		b.ReportMetric(ms(t)/float64(b.N), name+"-ms")
	}
	for _, name := range []string{"took", "suspend", "of-rehearsal_wait"} {
		if t, there := least[name]; there {
			b.ReportMetric(ms(t), "least-"+name+"-ms")
		}
	}
}
