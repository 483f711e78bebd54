package triggers

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// However long captures take, a session stands still for a fifth of the time at most; what
// fails is tried less and less often.
func TestPace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p pace
		var frozen, all time.Duration
		for range rapid.IntRange(1, 20).Draw(t, "checkpoints") {
			o := Outcome{Word: rapid.SampledFrom([]string{Done, Failed, Dropped, Taken}).Draw(t, "word")}
			if o.Word == Done {
				o.Frozen = time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "frozen"))
			}
			pause := p.after(o)
			if pause < least || pause > max(longest, (share-1)*o.Frozen) {
				t.Fatalf("%+v: a pause of %s", o, pause)
			}
			frozen, all = frozen+o.Frozen, all+o.Frozen+pause
		}
		if share*frozen > all {
			t.Fatalf("frozen for %s of %s", frozen, all)
		}
	})
	var p pace
	last := p.after(Outcome{Word: Failed})
	for range 40 {
		next := p.after(Outcome{Word: Failed})
		if next < last || next > longest {
			t.Fatalf("after another failure %s, after %s", next, last)
		}
		last = next
	}
	if last != longest {
		t.Errorf("after many failures %s", last)
	}
	if again := p.after(Outcome{Word: Done}); again != least {
		t.Errorf("after it worked %s", again)
	}
}
