package adopted

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// unified is the variable that has this program see cgroups of version 2 alone.
const unified = "DIAPAUSE_TEST_UNIFIED"

// unify unmounts what is of version 1, in this process's own mount namespace.
func unify() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "cgroup" {
			if err := unix.Unmount(f[1], unix.MNT_DETACH); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestUnified has trees live where all cgroups are of version 2, also if this machine has both.
func TestUnified(t *testing.T) {
	if os.Getenv(unified) != "" {
		t.Fatal("it runs itself")
	}
	lives := []string{"TestFamily", "TestServer", "TestCaptureFails", "TestEnds"}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run", "^("+strings.Join(lives, "|")+")$")
	cmd.Env = append(os.Environ(), unified+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	for _, name := range lives {
		if err != nil || !strings.Contains(string(out), "--- PASS: "+name+" ") {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
}
