package dockertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// install runs the script where a dockerd says that it has a version, with a mirror that
// doesn't exist: what needs one fails.
func install(t *testing.T, version string) (out, there string, err error) {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, "docker", "some", "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "dockerd"), []byte("#!/bin/sh\necho 'Docker version "+version+", build 1'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("some", filepath.Join(dir, "docker", "current")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "install.sh")
	cmd.Env = append(os.Environ(), "DIAPAUSE_PREFIX="+dir, "DIAPAUSE_DEBIAN_MIRROR=file:///no/such/mirror")
	said, err := cmd.CombinedOutput()
	entries, readErr := os.ReadDir(filepath.Join(dir, "docker"))
	if readErr != nil {
		t.Fatal(readErr)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return string(said), strings.Join(names, " "), err
}

func TestInstall(t *testing.T) {
	for version, kept := range map[string]bool{"28.5.2+dfsg4": true, "29.0.1": true, "100.1": true, "20.10.24+dfsg1": false, "": false} {
		out, there, err := install(t, version)
		switch {
		case kept && (err != nil || !strings.Contains(out, "is in ")):
			t.Errorf("with dockerd %s there it says %q, %v", version, out, err)
		case !kept && (err == nil || !strings.Contains(out, "can't fetch docker.io and containerd")):
			t.Errorf("without a mirror, in place of dockerd %s, it says %q, %v", version, out, err)
		case there != ".lock current some":
			t.Errorf("with dockerd %s there, it leaves %s", version, there)
		}
	}
}
