package fleet

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
)

// A copy of a host's data directory, with its id and its keys, is refused while the host is there: the session, which
// the copy knows nothing of, goes on.
func TestTwoWorkersOfOneHost(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	a := h.add("a").start()
	w := newWitness(t)
	h.run(a, "s", w, "--on-host-loss", "resume")
	copied := filepath.Join(h.dir, "copy")
	if err := os.Mkdir(copied, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"host", "keys"} {
		if out, err := exec.Command("cp", "-a", filepath.Join(a.data, name), copied).CombinedOutput(); err != nil {
			t.Fatalf("copy %s: %v\n%s", name, err, out)
		}
	}
	creds := filepath.Join(h.up.Data, "creds", "system.nk")
	out, err := exec.CommandContext(t.Context(), built.program, "worker", "--data", copied, "--nats", a.url, "--creds", creds, "--store", h.store, "--lease", term).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "another worker runs as this host") || !strings.Contains(string(out), "give it another --data and --host-id") {
		t.Errorf("a second worker of a host says (%v):\n%s", err, out)
	}
	w.goesOn()
	if v := h.awaitState("s", schemas.Running, a); v.Generation != 1 || !a.alive() {
		t.Errorf("the session is in generation %d, its worker alive: %v", v.Generation, a.alive())
	}
	if at := w.drops(); len(at) > 0 {
		t.Errorf("its count went back: %v", at)
	}
	h.audit()
}
