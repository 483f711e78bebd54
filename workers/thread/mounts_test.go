package thread

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMountsAreSeenByNoOther(t *testing.T) {
	dir := t.TempDir()
	// Often enough that the main thread has its turn.
	for range 20 {
		err := Mounts(func() error {
			err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m")
			return errors.Join(err, os.WriteFile(dir+"/inside", nil, 0o600))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("outside are %v, %v", left, err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("the mount is seen by the process (%v)", err)
	}
}
