package shim

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/thread"
)

// A view shows the session's files, and takes changes that the session doesn't see.
func TestView(t *testing.T) {
	session, view := t.TempDir(), t.TempDir()
	var tree *os.File
	err := thread.Mounts(func() error {
		p, err := newPlace(Setup{Dir: session})
		if err == nil {
			err = p.mountRoot()
		}
		for _, name := range []string{"kept", "changed", "removed"} {
			err = errors.Join(err, os.WriteFile(filepath.Join(p.root(), name), []byte(name), 0o644))
		}
		if err == nil {
			tree, err = p.rootTree()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	err = thread.Mounts(func() error {
		device, err := mountView(tree, view, 1<<20)
		if err != nil {
			return err
		}
		root := filepath.Join(view, "root")
		for _, name := range []string{"kept", "changed", "removed", "bin/sh"} {
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Errorf("the view lacks a file: %v", err)
			}
		}
		var own, seen unix.Stat_t
		if err := errors.Join(unix.Stat(filepath.Join(session, "upper", "kept"), &own), unix.Stat(filepath.Join(root, "kept"), &seen)); err != nil || own.Ino != seen.Ino {
			t.Errorf("a file has the number %d, and %d in the view, %v", own.Ino, seen.Ino, err)
		}
		if err := os.WriteFile(filepath.Join(root, "made"), nil, 0o644); err != nil {
			return err
		}
		var made unix.Stat_t
		if err := unix.Stat(filepath.Join(root, "made"), &made); err != nil || made.Dev != device || seen.Dev == device {
			t.Errorf("what the view has of its own is on device %d, %v, and what it shows on %d; want %d for the one", made.Dev, err, seen.Dev, device)
		}
		return errors.Join(os.WriteFile(filepath.Join(root, "changed"), []byte("x"), 0o644),
			os.Remove(filepath.Join(root, "removed")))
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"kept": "kept", "changed": "changed", "removed": "removed"} {
		if b, err := os.ReadFile(filepath.Join(session, "upper", name)); err != nil || string(b) != want {
			t.Errorf("after changes in the view the session's file %s has %q, %v", name, b, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(session, "upper", "made")); err == nil {
		t.Error("what was made in the view is in the session's layer")
	}
}
