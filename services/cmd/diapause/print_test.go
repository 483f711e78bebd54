package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
)

func TestCount(t *testing.T) {
	for what, want := range map[string]string{
		"key": "2 keys", "entry": "2 entries", "process": "2 processes", "session": "2 sessions",
	} {
		if got := count(2, what); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got := count(1, what); got != "1 "+what {
			t.Errorf("%q", got)
		}
	}
}

func TestStages(t *testing.T) {
	for want, list := range map[string][]schemas.Stage{
		"":                                 nil,
		"open 5ms, fetch 1ms, restore 7ms": {{Name: "open", MS: 5}, {Name: "fetch", MS: 1}, {Name: "restore", MS: 7}},
		"open 5ms + fill 2ms = restore 7ms": {
			{Name: "open", MS: 5, Part: true}, {Name: "fill", MS: 2, Part: true}, {Name: "fetch", MS: 1}, {Name: "restore", MS: 7}},
		"freeze 1ms + capture 2ms = durable 3ms, frozen 2ms, memory 2ms": {
			{Name: "freeze", MS: 1, Part: true}, {Name: "capture", MS: 2, Part: true}, {Name: "frozen", MS: 2}, {Name: "durable", MS: 3}, {Name: "memory", MS: 2}},
	} {
		if got := stages(list); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A session isn't shown as idle for longer than it has been in its state: what it was used for before
// a resume, or a host's clock that is ahead, doesn't count.
func TestIdleIsWithinFor(t *testing.T) {
	for _, of := range []struct {
		what  string
		state schemas.State
		since time.Duration // how long ago
		idle  float64       // in seconds
		want  string        // FOR, IDLE
	}{
		{"just resumed, last used an hour ago", schemas.Running, 0, 3600, "0s 0s"},
		{"resumed two minutes ago, not used since", schemas.Running, 2*time.Minute + time.Second, 3600, "2m 2m"},
		{"used a moment ago", schemas.Running, 5*time.Hour + time.Second, 0.2, "5h 0s"},
		{"not used for a while", schemas.Running, 5*time.Hour + time.Second, 240, "5h 4m"},
		{"since a time that has yet to come", schemas.Running, -time.Minute, 30, "0s 0s"},
		{"suspended", schemas.Suspended, 3*time.Hour + time.Second, 3600, "3h -"},
	} {
		v := schemas.View{}
		v.Name, v.State, v.Since, v.IdleSeconds = "s", of.state, time.Now().Add(-of.since), of.idle
		var out strings.Builder
		writeSessions(&out, []schemas.View{v})
		_, row, _ := strings.Cut(out.String(), "\n")
		if f := strings.Fields(row); !slices.Equal(f[2:4], strings.Fields(of.want)) {
			t.Errorf("%s: listed as %q, want %q", of.what, row, of.want)
		}
	}
}
