package cgroup

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// A process that is in a group in one hierarchy alone, since its mover was killed on the way, is
// killed with the others: else the group can't be removed.
func TestKillOfHalfAMember(t *testing.T) {
	hierarchies(t, func(t *testing.T, h *Hierarchy) {
		for i := range h.layout.mounts {
			g := create(t, h, Limits{})
			cmd := exec.Command("/bin/sleep", "1000")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			if err := write(filepath.Join(g.dir(i), "cgroup.procs"), strconv.Itoa(cmd.Process.Pid)); err != nil {
				t.Fatal(err)
			}
			if err := g.Kill(within(t, 20*time.Second)); err != nil {
				t.Error(err)
			}
			if err := g.Remove(); err != nil {
				t.Error(err)
			}
			if err := <-ended; err == nil {
				t.Error("it ended well")
			}
		}
	})
}
