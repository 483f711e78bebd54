package criu

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// Only what is old, empty and criu's goes.
func TestRemoveStrays(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	for _, name := range []string{".criu.mntns.old", ".criu.mntns.young", ".criu.mntns.full", "other"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ".criu.mntns.full", "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".criu.mntns.old", ".criu.mntns.full", "other"} {
		if err := os.Chtimes(filepath.Join(dir, name), now, now.Add(-2*strayAge)); err != nil {
			t.Fatal(err)
		}
	}
	if err := removeStrays(dir, now); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if want := []string{".criu.mntns.full", ".criu.mntns.young", "other"}; !slices.Equal(left, want) {
		t.Errorf("left: %v, want %v", left, want)
	}
}
