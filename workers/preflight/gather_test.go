package preflight

import (
	"os"
	"os/exec"
	"testing"
)

// A process that ends between two looks at the tree tells nothing of the session's
// mounts: another one is asked, and no file is taken for one from outside.
func TestMountsOfOneThatEnds(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	spaces := map[string]string{"mnt": "mnt:[1]"}
	ended := Process{PID: cmd.Process.Pid, Root: "/", Spaces: spaces}
	f := Facts{Mounts: map[int]bool{}, Processes: []Process{ended, {PID: os.Getpid(), Root: "/", Spaces: spaces}}}
	if err := f.gatherMounts(); err != nil || len(f.Mounts) == 0 {
		t.Errorf("mounts %v, %v", f.Mounts, err)
	}
	f = Facts{Mounts: map[int]bool{}, Processes: []Process{ended}}
	if err := f.gatherMounts(); err != nil || f.Mounts != nil {
		t.Errorf("with no process to ask: mounts %v, %v", f.Mounts, err)
	}
}
