// Package trim gives memory back to the system that a process held at its busiest and doesn't use any more.
//
// Go collects garbage when the heap has grown by as much as was in use, or two minutes after the last time; buffers in
// pools outlive one collection, and what is free goes back little by little. So a process that was busy and then rests keeps
// most of what it held for five minutes. In `diapause up` that is nine tenths of its memory: the NATS server in it
// fills buffers of 8 MiB as it writes, beside an index of 0.8 kB a session.
//
// Serve looks every few seconds how much was allocated. It collects twice when little was, after more was before. It
// never does so in a process that is busy: there the garbage is used again at once.
package trim

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/diapause/diapause/events/beat"
)

// Every is how often Serve looks.
const Every = 10 * time.Second

const (
	rest   = 1 << 20 // bytes that a process which rests may allocate from one look to the next
	worth  = 8 << 20 // bytes that make a collection worth it, and at least this part of what is in use:
	partOf = 8
	rounds = 2 // collections after which pools are empty
)

// look is what is known of the heap, in bytes.
type look struct {
	allocated uint64 // since the process began
	live      uint64 // in use after the last collection
}

// trimmer decides when to collect.
type trimmer struct {
	last, done uint64 // allocated at the last look, and when it was trimmed last
	due        int    // collections
}

// next reports whether to collect now.
func (t *trimmer) next(l look) bool {
	rests := l.allocated-t.last < rest
	t.last = l.allocated
	if l.allocated-t.done >= max(worth, l.live/partOf) {
		t.due = rounds
	}
	if !rests || t.due == 0 {
		return false
	}
	t.due--
	t.done = l.allocated
	return true
}

// Serve gives memory back until ctx ends.
func Serve(ctx context.Context) error { return serve(ctx, Every) }

func serve(ctx context.Context, every time.Duration) error {
	var t trimmer
	tick := beat.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			tick.Next()
			if t.next(see()) {
				debug.FreeOSMemory()
			}
		}
	}
}

func see() look {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return look{allocated: s[0].Value.Uint64(), live: s[1].Value.Uint64()}
}
