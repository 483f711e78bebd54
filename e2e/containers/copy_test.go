package containers

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/diapause/diapause/workers/docker/dockertest"
)

// Files go into a container and come out of it, and its terminal is used, as of any session;
// one that sleeps is woken for that.
func TestCopyAndAttach(t *testing.T) {
	e := dockertest.Shared(t)
	e.Busybox(t)
	h := newHost(t, e)
	h.must("run", "--name", "box", "--image", "busybox:test", "--container-name", "box", "--idle", "never", "--network", "none", "--tty", "-v", "boxdata:/data", "--tmpfs", "/fast", "--", "sh")
	h.runs("box")
	from := t.TempDir()
	write(t, filepath.Join(from, "tree/sub/f"), "copied")
	write(t, filepath.Join(from, "one"), "first")
	if err := os.Symlink("sub/f", filepath.Join(from, "tree/link")); err != nil {
		t.Fatal(err)
	}
	h.must("suspend", "box")
	h.must("cp", filepath.Join(from, "tree"), "box:/data") // into a directory that is there
	h.must("cp", filepath.Join(from, "tree"), "box:/tmp/new")
	h.must("cp", filepath.Join(from, "one"), "box:/tmp/one")
	write(t, filepath.Join(from, "one"), "second")
	h.must("cp", filepath.Join(from, "one"), "box:/tmp/one")
	if got := h.until("box", "cat /data/tree/sub/f /data/tree/link /tmp/new/link /tmp/one; ln /tmp/one /tmp/new/hard; ln /tmp/new/hard /tmp/new/again"); got != "copiedcopiedcopiedsecond" {
		t.Errorf("the container has %q", got)
	}
	h.must("cp", filepath.Join(from, "one"), "box:/fast") // memory of the container's
	if got := h.until("box", "cat /fast/one"); got != "second" {
		t.Errorf("its tmpfs has %q", got)
	}
	h.must("suspend", "box")
	to := t.TempDir()
	h.must("cp", "box:/tmp/new", to)
	h.must("cp", "box:/data/tree/sub/f", filepath.Join(to, "as"))
	for file, want := range map[string]string{"new/sub/f": "copied", "new/link": "copied", "new/hard": "second", "new/again": "second", "as": "copied"} {
		if got, err := os.ReadFile(filepath.Join(to, file)); err != nil || string(got) != want {
			t.Errorf("%s came out as %q, %v", file, got, err)
		}
	}
	for _, bad := range [][]string{
		{"cp", "box:/no/such", to}, {"cp", filepath.Join(from, "one"), "box:/no/such/one"}, {"cp", filepath.Join(from, "one"), "box:/proc/version"}, {"cp", filepath.Join(from, "one"), "box:/../../../no/such"},
	} {
		if r := h.Do(bad...); r.Code != 1 || len(r.Err) == 0 {
			t.Errorf("%q: %+v", bad, r)
		}
	}
	said := h.typed("box", "cd /data; pwd; echo $((6*7))\n")
	if !strings.Contains(said, "/data\r\n42\r\n") {
		t.Errorf("its terminal says %q", said)
	}
	if said := h.typed("box", "echo; exit 3\n"); !strings.Contains(said, "42\r\n") { // of before
		t.Errorf("attached again, its terminal says %q", said)
	}
	v := h.settle("box")
	for v.State == "running" {
		v = h.settle("box")
	}
	if v.Exit == nil || v.Exit.Code != 3 {
		t.Errorf("it ended as %+v", v.Exit)
	}
	h.must("rm", "--yes", "box")
}

// typed attaches to a session, types, and gives what its terminal showed.
func (h *host) typed(name, keys string) string {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.Program, "--data", h.Data, "attach", name)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(keys), &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() != 3 {
		h.t.Errorf("attach to %s: %v: %s", name, err, errs.String())
	}
	return out.String()
}
