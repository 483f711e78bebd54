package session_test

import (
	"testing"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

func TestScore(t *testing.T) {
	for name, c := range map[string]struct {
		setup func(*session.View)
		after time.Duration
		want  float64
	}{
		"one that just started":    {func(*session.View) {}, 0, 100},
		"idle for half an hour":    {func(*session.View) {}, 30 * time.Minute, 95},
		"idle for days":            {func(*session.View) {}, 72 * time.Hour, 0},
		"a person's":               {func(v *session.View) { v.Record.MadeBy = "person" }, time.Hour, 140},
		"an agent's":               {func(v *session.View) { v.Record.MadeBy = "agent" }, time.Hour, 90},
		"three commands":           {commands(3), 0, 106},
		"more commands than count": {commands(400), 0, 300},
		"the same command, delivered again": {func(v *session.View) {
			heard(v, 1, 0, "exec", "", schemas.Activity{})
			heard(v, 1, 0, "exec", "", schemas.Activity{})
		}, 0, 102},
		"recorded commands": {func(v *session.View) {
			heard(v, 1, 0, "output", "commands", schemas.Activity{Commands: 7})
			heard(v, 2, 0, "input", "", schemas.Activity{})
			heard(v, 3, 0, "output", "commands", schemas.Activity{Commands: 12})
		}, 0, 124},
		"more recorded than count": {func(v *session.View) { heard(v, 1, 0, "output", "commands", schemas.Activity{Commands: 1 << 40}) }, 0, 300},
		"fewer than none":          {func(v *session.View) { heard(v, 1, 0, "output", "commands", schemas.Activity{Commands: -5}) }, 0, 100},
		"output is no command":     {func(v *session.View) { heard(v, 1, 0, "output", "", schemas.Activity{}) }, 0, 100},
	} {
		v := running()
		c.setup(v)
		p, _ := session.PolicyFor("web", nil)
		if got := v.Score(p.Score, t0.Add(c.after)); got < c.want-0.01 || got > c.want+0.01 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func commands(n int) func(*session.View) {
	return func(v *session.View) {
		for i := range n {
			heard(v, uint64(i+1), 0, "input", "", schemas.Activity{})
		}
	}
}

// A reader that comes later may hear how many commands were recorded before it sees the record; those of an earlier session of
// the name don't count.
func TestRecordedCommandsOfALaterReader(t *testing.T) {
	for born, want := range map[uint64]float64{3: 120, 5: 100} {
		r := running().Record
		r.Born = born
		var v session.View
		heard(&v, 5, 0, "output", "commands", schemas.Activity{Commands: 10})
		v.See(r, t0)
		p, _ := session.PolicyFor("web", nil)
		if got := v.Score(p.Score, t0); got != want {
			t.Errorf("born at %d: %v, want %v", born, got, want)
		}
	}
}
