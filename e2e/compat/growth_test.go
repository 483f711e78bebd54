package compat

import (
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/e2e/compat/local"
)

// What grows with each round is reported by name, and what only differs from round to round isn't.
func TestGrew(t *testing.T) {
	for want, step := range map[string]func(c *Cycle, n int64){
		"":                    func(c *Cycle, n int64) { c.Captured += n % 2 << 20; c.Used.Up.Memory += n % 3 * 10 << 20 },
		"the image":           func(c *Cycle, n int64) { c.Captured += n * 10 << 20 },
		"the time of a round": func(c *Cycle, n int64) { c.Resume += time.Duration(n) * 700 * time.Millisecond },
		"up's memory":         func(c *Cycle, n int64) { c.Used.Up.Memory += n * 25 << 20 },
		"the shim's memory":   func(c *Cycle, n int64) { c.Used.Shim.Memory += n * 2 << 20 },
	} {
		var r Row
		for n := range int64(Rounds) {
			c := Cycle{Captured: 60 << 20, Durable: 200 * time.Millisecond, Resume: 100 * time.Millisecond}
			c.Used.Up, c.Used.Shim = local.Holding{Memory: 50 << 20}, local.Holding{Memory: 11 << 20}
			step(&c, n)
			r.Cycles = append(r.Cycles, c)
		}
		err := r.grew()
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), "10 rounds: "+want+" grows: ") {
			t.Errorf("it reports %v, want %q", err, want)
		}
	}
}
