package examples

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/diapause/diapause/schemas"
)

// The same examples in a session say that this one is in use, without an address: it has a network of
// its own, and what listens on the host isn't there.
func TestInside(t *testing.T) {
	b := newBench(t)
	here, err := filepath.Abs(top)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := b.View("work"); err != nil || v.Network != schemas.NetworkPrivate {
		t.Fatalf("the session has the network %q, %v", v.Network, err)
	}
	script := filepath.Join(here, "shell", "activity.sh")
	b.must("exec", "work", "--", "bash", script, "work.hold.deploy", `{"ttl":"10m","reason":"deploys"}`)
	b.explained("deploys")

	b.must("policy", "set", "session:work", "checkpoints=run_boundaries")
	b.must("exec", "work", "--env", "RUN_ID=run-of-agent.py", "--", "python3", filepath.Join(here, "python", "agent.py"), "work")
	b.snapshot("run-of-agent.py", "run_end", "an agent of the examples", "agent.py")
	b.nodeProgram("agent.mjs")
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal(err)
	}
	b.must("exec", "work", "--env", "RUN_ID=run-of-agent.mjs", "--", node, filepath.Join(b.dir, "agent.mjs"), "work")
	b.snapshot("run-of-agent.mjs", "run_end", "an agent of the examples", "agent.mjs")

	b.must("suspend", "work")
	b.must("ensure", "work")
	b.must("exec", "work", "--", "bash", script, "work.hold.deploy", `{"released":true}`)
	b.is("suspended")
}

// A server in a session, reached at a port that it publishes, says itself that its session works for a visitor.
func TestServerInside(t *testing.T) {
	b := newBench(t)
	program, address := b.goProgram(), freeAddress(t)
	b.must("rm", "--yes", "work")
	b.must("run", "--name", "work", "--idle", "2s", "--publish", address+":8080", "--", program, "127.0.0.1:8080")
	b.until("served", func() bool { return get(address, "/healthz") == nil })
	b.visit(address)
}
