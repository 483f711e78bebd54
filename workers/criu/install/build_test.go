package install

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A build that fails leaves the CRIU that is there.
func TestBuildFailureLeavesWhatWasThere(t *testing.T) {
	dir := prefix(t, "4.2.1")
	cmd := exec.Command("sh", "build.sh")
	cmd.Env = append(os.Environ(), "DIAPAUSE_PREFIX="+dir, "DIAPAUSE_DEBIAN_MIRROR=file:///no/such/mirror")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "can't fetch the source of criu") {
		t.Errorf("without a mirror it says %q, %v", out, err)
	}
	if target, err := os.Readlink(filepath.Join(dir, "criu", "current")); err != nil || target != "some" {
		t.Errorf("current is %q, %v", target, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "criu", ".new.*")); len(left) > 0 {
		t.Errorf("it leaves %v", left)
	}
}
