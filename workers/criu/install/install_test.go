package install

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// prefix makes a prefix in which criu says that it has that version.
func prefix(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	tree := filepath.Join(dir, "criu", "some")
	if err := os.MkdirAll(filepath.Join(tree, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tree, "bin", "criu"), []byte("#!/bin/sh\necho 'Version: "+version+"'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("some", filepath.Join(dir, "criu", "current")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// install runs the script with a mirror that doesn't exist: what needs one fails.
func install(dir string, args ...string) (string, error) {
	cmd := exec.Command("sh", append([]string{"install.sh"}, args...)...)
	cmd.Env = append(os.Environ(), "DIAPAUSE_PREFIX="+dir, "DIAPAUSE_DEBIAN_MIRROR=file:///no/such/mirror")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestWhatIsThereIsKept(t *testing.T) {
	for _, version := range []string{"4.2", "4.2.1", "4.10.3", "5.0"} {
		out, err := install(prefix(t, version))
		if err != nil || !strings.Contains(out, "criu "+version+" is in ") {
			t.Errorf("with criu %s there it says %q, %v", version, out, err)
		}
	}
}

func TestFailureLeavesWhatWasThere(t *testing.T) {
	for version, args := range map[string][]string{"4.1.1": nil, "3.17.1": nil, "4.2.1": {"--upgrade"}} {
		dir := prefix(t, version)
		out, err := install(dir, args...)
		if err == nil || !strings.Contains(out, "can't fetch criu") {
			t.Errorf("without a mirror, in place of criu %s, it says %q, %v", version, out, err)
		}
		entries, err := os.ReadDir(filepath.Join(dir, "criu"))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if got := strings.Join(names, " "); got != ".lock current some" {
			t.Errorf("it leaves %s", got)
		}
	}
}

func TestNoPlace(t *testing.T) {
	out, err := install("/proc/no/such")
	if err == nil || !strings.Contains(out, "DIAPAUSE_PREFIX") {
		t.Errorf("with no place to write to it says %q, %v", out, err)
	}
}

// TestInstalled runs the real one, which must be there for all other tests.
func TestInstalled(t *testing.T) {
	out, err := exec.Command("sh", "install.sh").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "criu 4.") && !strings.Contains(string(out), "criu 5.") {
		t.Errorf("install.sh says %q, %v", out, err)
	}
}
