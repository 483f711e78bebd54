package attack

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// stranger is a user who has nothing to do with Diapause.
const stranger = 65534

// beside are the attempts of a user of the machine, and of root, who may.
func (g *target) beside(t *testing.T) {
	run := exec.CommandContext(t.Context(), g.program)
	f := g.facts
	f.Name, f.PIDs = aimed, f.PIDs[1:] // those of Diapause
	run.Env = append(os.Environ(), told(f, "stranger")...)
	run.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: stranger}}
	g.attempts(t, run, wants("stranger", ""))
}

// elsewhere are the attempts of another machine, which sends what is for sessions by way of the host.
func (g *target) elsewhere(t *testing.T) {
	err := g.outside.Inside(func() error {
		for _, route := range [][]string{
			{"-4", "route", "add", "198.18.0.0/15", "via", g.outside.Host.String()},
			{"-6", "route", "add", "fd64:6961:7061::/48", "via", g.outside.Host6.String()},
		} {
			if out, err := exec.Command("ip", route...).CombinedOutput(); err != nil {
				return fmt.Errorf("%v: %w: %s", route, err, out)
			}
		}
		run := exec.CommandContext(t.Context(), g.program)
		run.Env = append(os.Environ(), told(g.facts, "network")...)
		g.attempts(t, run, wants("network", ""))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// limited are attempts to take too much.
func (g *target) limited(t *testing.T) {
	g.verb("run", "--name", "small", "--network", "none", "--idle", "never", "--pids", fmt.Sprint(LimitPids),
		"--memory", fmt.Sprint(LimitMemory), "--disk", fmt.Sprint(LimitDisk), "--", "sleep", "100000")
	g.inside(t, "small", "", "limited")
	if _, err := g.Must("exec", "small", "--", "true"); err != nil {
		t.Error(err)
	}
}
