package dist

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/schemas"
)

const top = "../.."

// TestManual makes the manual's pages, which say nothing of the machine that makes them. TestPackage compares
// them with the program's verbs.
func TestManual(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("DIAPAUSE_STORE", "s3://of-this-machine")
	make := exec.CommandContext(t.Context(), "go", "run", "-trimpath", "-tags", "man", "./cmd/diapause", dir) // as build.sh does
	make.Dir, make.Env = filepath.Join(top, "services"), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := make.CombinedOutput(); err != nil {
		t.Fatalf("make the pages: %v\n%s", err, out)
	}
	for page, want := range map[string]string{"diapause": "Suspend idle sessions", "diapause-suspend": "Write a session's image", "diapause-host-drain": "--force", "diapause-up": "DIAPAUSE_STORE"} {
		b, err := os.ReadFile(filepath.Join(dir, page+".1"))
		text := strings.ReplaceAll(string(b), `\`, "")
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("page %s lacks %q: %v", page, want, err)
		}
		if strings.Contains(text, "of-this-machine") {
			t.Errorf("page %s has what DIAPAUSE_STORE is here", page)
		}
	}
}

func run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

const version = "0.1.0-test"

// TestPackage builds a release twice, on two file systems, and installs, upgrades and removes its package beside a running session.
func TestPackage(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		t.Log("packages are built and installed with DIAPAUSE_LONG=1")
		return
	}
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	memory := filepath.Join(dir, "memory")
	if err := os.Mkdir(memory, 0o755); err != nil {
		t.Fatal(err)
	}
	mount(t, "tmpfs", memory, "tmpfs", "")
	for out, scratch := range map[string]string{one: dir, two: memory} {
		run(t, top, "env", "TMPDIR="+scratch, "services/packages/build.sh", version, out)
		run(t, out, "sha256sum", "--check", "SHA256SUMS")
	}
	run(t, dir, "diff", "-r", one, two)
	deb := filepath.Join(one, "diapause_0.1.0~test_amd64.deb")

	m := newMachine(t)
	m.dpkg("--install", deb)
	m.asked("daemon-reload")
	program := filepath.Join(m.root, "usr/bin/diapause")
	if out := run(t, dir, program, "version"); strings.TrimSpace(out) != "diapause version "+version {
		t.Errorf("it says %q", out)
	}
	m.whole()
	s := stack.New(program, filepath.Join(dir, "data"))
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Up("--docker", "none"); err != nil {
		t.Fatal(err)
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := s.Must(args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	must("run", "--name", "s", "--idle", "never", "--", "sh", "-c", "while sleep 0.1; do i=$((i+1)); echo $i; done")
	before := observed(t, s)
	goesOn := func(when string) {
		t.Helper()
		if s.Leaders(before.UID) != 1 {
			t.Errorf("%s the session has %d trees", when, s.Leaders(before.UID))
		}
		from, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", before.PID))
		for end := time.Now().Add(time.Minute); err == nil; time.Sleep(20 * time.Millisecond) {
			var now []byte
			if now, err = os.ReadFile(fmt.Sprintf("/proc/%d/stat", before.PID)); !bytes.Equal(now, from) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s the session stands still", when)
			}
		}
		if err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}

	m.dpkg("--install", m.newer(deb))
	m.asked("daemon-reload", "--no-block try-restart "+parts)
	goesOn("after an upgrade")
	must("down") // as the unit's restart ends the daemon alone
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	goesOn("without the daemon")
	if err := s.Up("--docker", "none"); err != nil {
		t.Fatal(err)
	}
	if v := observed(t, s); v.State != schemas.Running || v.PID != before.PID || v.Generation != before.Generation {
		t.Errorf("after the upgrade it is %+v", v)
	}

	m.dpkg("--remove", "diapause")
	m.asked("disable --now "+parts, "daemon-reload")
	goesOn("after a removal")
	if _, err := os.Stat(program); !os.IsNotExist(err) {
		t.Errorf("the program is still there: %v", err)
	}
	if out := m.dpkg("--purge", "diapause"); !strings.Contains(out, "/var/lib/diapause stays") {
		t.Errorf("a purge says\n%s", out)
	}
	m.asked() // there are no units any more
	if text, err := os.ReadFile(filepath.Join(m.root, "var/lib/diapause/kept")); err != nil || string(text) != "data" {
		t.Errorf("the data directory has %q, %v", text, err)
	}
	goesOn("after a purge")
	m.without(deb)
	goesOn("without systemd")
	m.dpkg("--install", deb) // what is left is removed with it
}

// observed is the session once its processes have been looked at.
func observed(t *testing.T, s *stack.Stack) schemas.View {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		v, err := s.View("s")
		if err == nil && v.PID != 0 {
			return v
		}
		if time.Now().After(end) {
			t.Fatalf("its processes aren't known: %+v, %v", v, err)
		}
	}
}
