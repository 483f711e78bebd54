package attack

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
)

// Everything is tried in a session of each kind of network, and by root of the host.
func TestAttacks(t *testing.T) {
	g := aim(t)
	before, err := g.View(aimed)
	g.must(err)
	for _, network := range []string{private, host} {
		g.verb("run", "--name", "in-"+network, "--network", network, "--idle", "never", "--", "sleep", "100000")
	}
	g.verb("suspend", "in-"+private)
	g.verb("ensure", "in-"+private)
	t.Run("root of the host", func(t *testing.T) { g.controls(t, "session") })
	for _, network := range []string{private, host} {
		t.Run("session with network "+network, func(t *testing.T) {
			g.inside(t, "in-"+network, network, "session")
			if out, err := g.Must("exec", "in-"+network, "--", "echo", "it goes on"); err != nil || strings.TrimSpace(out) != "it goes on" {
				t.Errorf("after all attempts a command says %q, %v", out, err)
			}
		})
	}
	t.Run("traps", g.traps)
	t.Run("session with limits", g.limited)
	t.Run("another user", g.beside)
	t.Run("doors", g.doors)
	t.Run("another machine", g.elsewhere)
	g.unharmed(before)
}

// unharmed looks whether all is as it was.
func (g *target) unharmed(before schemas.View) {
	g.t.Helper()
	if text, err := os.ReadFile(filepath.Join(g.facts.Bait, BaitFile)); err != nil || string(text) != "bait" {
		g.t.Errorf("a file of the host is %q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(g.facts.Bait, "removed/deep")); err != nil {
		g.t.Errorf("a directory of the host: %v", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.heard[g.facts.Mark+" from "] || len(g.heard) != 1 {
		g.t.Errorf("the host heard %v, want the control alone", g.heard)
	}
	after, err := g.View(aimed)
	g.must(err)
	if after.State != schemas.Running || after.Epoch != before.Epoch {
		g.t.Errorf("the other session was\n%+v\nis\n%+v", before, after)
	}
	g.verb("audit", "--verify")
	if !g.Alive() {
		g.t.Error("the daemon has ended")
	}
}
