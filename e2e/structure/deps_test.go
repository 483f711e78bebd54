package structure

import (
	"os/exec"
	"strings"
	"testing"
)

// A driver, and a session's shim, need nothing of NATS: the one is a port, the other is
// there as often as there are sessions.
func TestDriversAndShimsDontLinkNATS(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "./driver", "./shim", "./criu")
	cmd.Dir = top + "/workers"
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list what they link: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "nats") {
			t.Errorf("they link %s", strings.TrimSpace(line))
		}
	}
}
