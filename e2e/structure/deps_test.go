package structure

import (
	"os/exec"
	"strings"
	"testing"
)

// A driver, and a session's shim, need nothing of NATS: the one is a port, the other is
// there as often as there are sessions.
func TestDriversAndShimsDontLinkNATS(t *testing.T) {
	links(t, []string{"./driver", "./shim", "./criu"}, "nats")
}

// The shim's own program is small, and nothing that it links has timers of its own.
func TestShimsProgramLinksLittle(t *testing.T) {
	links(t, []string{"./shim/program"}, "nats", "minio", "moby", "docker", "grpc", "containerd", "net/http", "prometheus", "cobra", "embedded")
}

// links fails if one of the packages links one whose path has one of the words.
func links(t *testing.T, packages []string, words ...string) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-deps"}, packages...)...)
	cmd.Dir = top + "/workers"
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list what %v link: %v", packages, err)
	}
	for line := range strings.Lines(string(out)) {
		for _, word := range words {
			if strings.Contains(line, word) {
				t.Errorf("%v link %s", packages, strings.TrimSpace(line))
			}
		}
	}
}
