package driver

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// However an operation is divided, its parts add up to the whole, to the millisecond.
func TestPartsAddUp(t *testing.T) {
	names := rapid.SampledFrom([]string{"a", "b", "c", "d"})
	step := rapid.Int64Range(0, 5e6)
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1e9, 0)
		l := NewLaps(now)
		for range rapid.IntRange(0, 20).Draw(t, "marks") {
			now = now.Add(time.Duration(step.Draw(t, "took")))
			if rapid.Bool().Draw(t, "mark") {
				l.mark(now, names.Draw(t, "name"))
				continue
			}
			var parts []Part
			for range rapid.IntRange(0, 3).Draw(t, "parts") {
				parts = append(parts, Part{names.Draw(t, "of"), time.Duration(step.Draw(t, "claims") - 1e6)})
			}
			l.divide(now, parts, names.Draw(t, "rest"))
		}
		var sum, ms int64
		for _, p := range l.Parts() {
			if p.Took < 0 {
				t.Fatalf("part %s took %v", p.Name, p.Took)
			}
			sum += int64(p.Took)
		}
		for _, s := range l.Stages() {
			ms += s.MS
		}
		if whole := now.Sub(time.Unix(1e9, 0)); time.Duration(sum) != whole || l.Total() != whole || ms != whole.Milliseconds() {
			t.Fatalf("parts of %v and stages of %d ms, want %v and %d", time.Duration(sum), ms, whole, whole.Milliseconds())
		}
	})
}
