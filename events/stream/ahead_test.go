package stream

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// told is a stream whose leader has just said what time it is there.
type told struct {
	jetstream.Stream
	at time.Time
}

func (s told) CachedInfo() *jetstream.StreamInfo { return &jetstream.StreamInfo{TimeStamp: s.at} }

// A server whose clock is hours off says when a message came by that clock: by ours it
// was as long ago.
func TestServersClock(t *testing.T) {
	for _, off := range []time.Duration{0, -3 * time.Hour, 3 * time.Hour} {
		there := time.Now().Add(off)
		stored := there.Add(-time.Minute)
		got := stored.Add(aheadOf(told{at: there}))
		if ago := time.Since(got); ago < 50*time.Second || ago > 2*time.Minute {
			t.Errorf("with a clock that is %s off, what came a minute ago came %s ago", off, ago)
		}
	}
	if got := aheadOf(told{}); got != 0 {
		t.Errorf("without a word of the time: %s", got)
	}
}
