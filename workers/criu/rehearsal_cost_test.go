package criu

import (
	"fmt"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
)

// BenchmarkRehearsal captures a session of 100 processes with 1 GB of memory, which then runs
// on, without a rehearsal and with one. "took" is the rehearsal alone, and "of-rehearsal_wait" how long the rest of
// the suspend waited for it:
//
//	go test ./criu -run '^$' -bench Rehearsal -benchtime 5x
func BenchmarkRehearsal(b *testing.B) {
	const processes, each = 100, 10 << 20
	s := bench(b, "", schemas.Spec{Command: []string{"/usr/bin/python3", "-c", fmt.Sprintf(`
import os, time
others = %d - 1
r, w = os.pipe()
first = all(os.fork() for _ in range(others))
m = bytearray(os.urandom(4096) * (%d // 4096))
if first:
    for _ in range(others):
        os.read(r, 1)
    open("/ready", "w").close()
else:
    os.write(w, b"r")
os.close(r); os.close(w)
time.sleep(1000000)
`, processes, each)}})
	for _, which := range []schemas.Rehearse{schemas.RehearseNever, schemas.RehearseAlways} {
		b.Run(string(which), func(b *testing.B) {
			sums := map[string]time.Duration{}
			for b.Loop() {
				laps, c, _ := s.suspend(b, which)
				sums["took"] += c.RehearsalTook
				sums["suspend"] += laps.Total()
				for _, p := range laps.Parts() {
					sums["of-"+p.Name] += p.Took
				}
				if err := s.d.Thaw(b.Context(), s.next()); err != nil {
					b.Fatal(err)
				}
			}
			for name, t := range sums {
				b.ReportMetric(float64(t.Microseconds())/1000/float64(b.N), name+"-ms")
			}
		})
	}
}
