package worker_test

import (
	"slices"
	"testing"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// The parts of a suspend and of a resume add up to the whole.
func TestStagesAddUp(t *testing.T) {
	b := newBench(t)
	b.run()
	take := func(method string, change func()) {
		entered, release := b.pause(method)
		change()
		b.wait(entered)
		time.Sleep(least)
		close(release)
	}
	take("Capture", func() { b.suspend(true) })
	b.until("suspended", suspended)
	b.addsUp(schemas.TSuspended, "durable", "prepare", "capture", "commit")
	take("Restore", func() { b.resume() })
	b.until("running", running)
	b.addsUp(schemas.TResumed, "restore", "clear", "open", "start")
}

// least is what the driver takes at least, so that there is something to add up.
const least = 20 * time.Millisecond

// addsUp looks at the stages of a transition that was made.
func (b *bench) addsUp(of schemas.TransitionType, whole string, parts ...string) {
	b.t.Helper()
	all, err := b.records.History(b.ctx, b.name)
	b.must(err)
	i := slices.IndexFunc(all, func(v statekv.Versioned) bool { return v.Transition.Type == of })
	if i < 0 {
		b.t.Fatalf("no transition %s", of)
	}
	var sum, total int64
	for _, s := range all[i].Transition.Stages {
		if s.Part {
			sum += s.MS
			parts = slices.DeleteFunc(parts, func(name string) bool { return name == s.Name })
		}
		if s.Name == whole {
			total = s.MS
		}
	}
	if sum != total || total < least.Milliseconds() || len(parts) > 0 {
		b.t.Errorf("%s: parts of %d ms, %s has %d, and %v are missing: %+v", of, sum, whole, total, parts, all[i].Transition.Stages)
	}
}
