package events

import (
	"os/exec"
	"strings"
	"testing"
)

// ours is what the package may link of this project.
var ours = []string{
	"github.com/diapause/diapause/events", "github.com/diapause/diapause/events/natsconn", "github.com/diapause/diapause/schemas",
}

// A service that uses the package links nats.go, what that needs by itself, the wire
// vocabulary, and nothing else.
func TestLinksLittle(t *testing.T) {
	allowed := map[string]bool{}
	for _, pkg := range append(deps(t, "github.com/nats-io/nats.go", "github.com/nats-io/nats.go/micro"), ours...) {
		allowed[pkg] = true
	}
	for _, pkg := range deps(t, ".") {
		if first, _, _ := strings.Cut(pkg, "/"); strings.Contains(first, ".") && !allowed[pkg] {
			t.Errorf("it links %s", pkg)
		}
	}
}

func deps(t *testing.T, of ...string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps"}, of...)...).Output()
	if err != nil {
		t.Fatalf("go list -deps %v: %v", of, err)
	}
	return strings.Fields(string(out))
}
