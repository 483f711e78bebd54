package usage_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/usage"
)

// What folding one revision takes, and what is kept of one session.
func BenchmarkFold(b *testing.B) {
	const sessions = 100_000
	names, uids := make([]schemas.SessionID, sessions), make([]schemas.UID, sessions)
	for i := range sessions {
		names[i], uids[i] = schemas.SessionID(fmt.Sprintf("s%d", i)), schemas.UID(fmt.Sprintf("u%d", i))
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f := usage.NewFold(start.Add(time.Hour))
	states := []schemas.State{schemas.Running, schemas.Suspending, schemas.Suspended, schemas.Resuming}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		i, at := n%sessions, start.Add(time.Duration(n)*time.Millisecond)
		f.Add(statekv.Versioned{Stored: at, SessionRecord: schemas.SessionRecord{
			Tenant: "acme", Session: names[i], UID: uids[i], State: states[n/sessions%len(states)], Transition: schemas.Transition{At: at},
		}})
		n++
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(min(n, sessions)), "B/session")
	runtime.KeepAlive(f)
}
