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
		"output is no command": {func(v *session.View) { heard(v, 1, 0, "output", "", schemas.Activity{}) }, 0, 100},
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
