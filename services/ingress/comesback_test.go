package ingress

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
)

func TestCameInVain(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	short := past{ended: now.Add(-time.Minute), lasted: 5 * time.Second, sent: 3000}
	with := func(change func(*past)) past { p := short; change(&p); return p }
	woke := with(func(p *past) { p.woke = true })
	long := with(func(p *past) { p.lasted = vainTime })
	typed := with(func(p *past) { p.sent = vainBytes })
	old := with(func(p *past) { p.ended = now.Add(-vainAgo) })
	for what, c := range map[string]struct {
		last   []past
		runs   bool
		asleep bool
	}{
		"nothing before":                        {nil, false, false},
		"two":                                   {[]past{short, short}, false, false},
		"three":                                 {[]past{short, short, short}, true, false},
		"one that lasted among them":            {[]past{short, short, long, short, short}, false, false},
		"three since one that lasted":           {[]past{long, short, short, short}, true, false},
		"one in which much was sent":            {[]past{short, typed, short}, false, false},
		"long ago":                              {[]past{old, old, old}, false, false},
		"one resumed it":                        {[]past{woke, short}, false, false},
		"two resumed it":                        {[]past{woke, woke}, false, true},
		"two resumed it, others didn't":         {[]past{woke, short, woke, short}, true, true},
		"one that resumed it was used":          {[]past{woke, with(func(p *past) { p.woke, p.sent = true, vainBytes })}, false, false},
		"commands, one after another":           {[]past{woke, short, short, short, short, short}, true, false},
		"two resumed it, then it was used once": {[]past{woke, woke, typed}, false, false},
	} {
		if got := cameInVain(c.last, true, time.Hour, now); got != c.runs {
			t.Errorf("%s, and it runs: %t", what, got)
		}
		if got := cameInVain(c.last, false, insistent-1, now); got != c.asleep {
			t.Errorf("%s, and it sleeps: %t", what, got)
		}
		if cameInVain(c.last, false, insistent, now) {
			t.Errorf("%s: who insists isn't let in", what)
		}
	}
}

// Who tries for long without a pause insists; after a pause that begins again.
func TestInsists(t *testing.T) {
	c, now := newCallers(), time.Unix(1_800_000_000, 0)
	for range 10 {
		c.arrived("a", now)
		now = now.Add(30 * time.Second)
	}
	if _, insists := c.arrived("a", now); insists != 5*time.Minute {
		t.Errorf("it insists for %s", insists)
	}
	if _, insists := c.arrived("b", now); insists != 0 {
		t.Errorf("another one insists for %s", insists)
	}
	now = now.Add(pausing + 1)
	if _, insists := c.arrived("a", now); insists != 0 {
		t.Errorf("after a pause it insists for %s", insists)
	}
	for i := range rememberedCallers + 10 {
		c.ended(string(rune('A'+i)), past{})
	}
	if len(c.all) > rememberedCallers {
		t.Errorf("%d are remembered", len(c.all))
	}
}

// A laptop that was closed has its editor connect again and again: that resumes the session twice in vain, and then no
// more, until someone uses it. An editor that stays connected is a lease all the while.
func TestClosedLaptop(t *testing.T) {
	f := newFleet(t, nil)
	f.server = shout(t)
	var server *TCPServer
	b := relay(t, f, f.options(), func(s *TCPServer) { server = s })
	suspend := func() {
		until(t, "the end of the connection before was seen", func() bool { return f.leases() == 0 })
		f.set(schemas.Suspended)
		if w := server.wakes.last(web); w != nil { // nor is it believed to run
			server.wakes.forget(web, w)
		}
	}
	if got, err := b.say(""); got != "" || err != nil {
		t.Fatalf("a probe reads %q, %v", got, err)
	}
	for i := range 5 {
		suspend()
		got, err := b.say("SSH-2.0-OpenSSH_9.2\n")
		if want := min(i+1, vainWakes); f.asked("ensure") != want || i < vainWakes && (got == "" || err != nil) || i >= vainWakes && got != "" {
			t.Fatalf("attempt %d gives %q, %v, after %d resumes, want %d", i, got, err, f.asked("ensure"), want)
		}
	}
	f.set(schemas.Running)
	c := b.dial()
	if _, err := io.WriteString(c, "hello"); err != nil {
		t.Fatal(err)
	}
	until(t, "the connection is a lease", func() bool { return f.leases() == 1 })
	f.mu.Lock()
	for _, fresh := range f.held {
		if fresh {
			t.Error("a connection that comes back by itself is activity")
		}
	}
	f.mu.Unlock()
	if _, err := io.WriteString(c, strings.Repeat("typed ", vainBytes)); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(c); err != nil {
		t.Fatal(err)
	}
	until(t, "its end was seen", func() bool { return f.leases() == 0 })
	suspend()
	if got, err := b.say("hello"); got != "HELLO" || err != nil || f.asked("ensure") != vainWakes+1 {
		t.Errorf("once it was used it answers %q, %v", got, err)
	}
}
