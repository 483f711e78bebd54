package embedded

import (
	"bytes"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"
)

// TestServerClock: an idle server wakes no thread ten times a second for the clock of its caches, which goes on all the same.
func TestServerClock(t *testing.T) {
	start(t, options(t))
	all := func() string {
		var b bytes.Buffer
		if err := pprof.Lookup("goroutine").WriteTo(&b, 2); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	for end := time.Now().Add(time.Minute); strings.Contains(all(), "server/ats.Register"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the server's own clock runs: was it renamed in nats-server? See quiet.go")
		}
	}
	first := ats.AccessTime()
	for end := time.Now().Add(time.Minute); ats.AccessTime() <= first; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the clock stands still")
		}
	}
}
