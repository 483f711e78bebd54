package dir

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/storetest"
)

func open(t *testing.T, root string) *Store {
	t.Helper()
	s, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	root := t.TempDir()
	storetest.Run(t, func(t *testing.T) objectstore.Store { return open(t, root) })
	wantNoTemp(t, root)
}

func wantNoTemp(t *testing.T, root string) {
	t.Helper()
	if left := temps(t, root); len(left) != 0 {
		t.Fatalf("unfinished files are left: %v", left)
	}
}

func temps(t *testing.T, root string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(root, tmpDir))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestModes(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	root := filepath.Join(t.TempDir(), "made", "here")
	s := open(t, root)
	if err := s.Put(t.Context(), "a/b/c", strings.NewReader("x"), 1); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if want := fs.FileMode(0o600); !d.IsDir() && info.Mode() != want {
			t.Errorf("%s: mode %v, want %v", path, info.Mode(), want)
		}
		if want := fs.FileMode(0o700) | fs.ModeDir; d.IsDir() && info.Mode() != want {
			t.Errorf("%s: mode %v, want %v", path, info.Mode(), want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDeleteRemovesEmptyDirectories(t *testing.T) {
	root := t.TempDir()
	s := open(t, root)
	if err := s.Put(t.Context(), "a/b/c", strings.NewReader("x"), 1); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), "a/b/c"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(root, "a")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("directory a: error %v, want it gone", err)
	}
}

// A crashed writer's file goes at the next Open, a living writer's stays.
func TestOpenCleansUpAfterTheDead(t *testing.T) {
	root := t.TempDir()
	s := open(t, root)
	dead := filepath.Join(s.tmp(), "DEAD")
	if err := os.WriteFile(dead, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}

	pr, pw := io.Pipe()
	result := make(chan error, 1)
	go func() { result <- s.Put(t.Context(), "live", pr, 10) }()
	if _, err := pw.Write([]byte("first")); err != nil { // returns once Put has read it
		t.Fatal(err)
	}
	open(t, root)
	if left := temps(t, root); len(left) != 1 || left[0] == "DEAD" {
		t.Fatalf("unfinished files after Open: %v, want the living writer's alone", left)
	}
	pw.Write([]byte("final"))
	pw.Close()
	if err := <-result; err != nil {
		t.Fatalf("put across another Open: %v", err)
	}
	wantNoTemp(t, root)
}

// Many starting processes must not take a fresh file for a leftover.
func TestOpenBesideWriters(t *testing.T) {
	root := t.TempDir()
	s := open(t, root)
	stop := make(chan struct{})
	stopped := make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			if _, err := Open(root); err != nil {
				stopped <- err
				return
			}
		}
	}()
	for i := range 200 {
		name := "n" + strings.Repeat("x", i%100+1) + "/" + string(rune('a'+i/100))
		if err := s.Put(t.Context(), name, strings.NewReader("x"), 1); err != nil {
			t.Errorf("put: %v", err)
		}
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	wantNoTemp(t, root)
}

// A directory on a file system that is too small: the error says so, nothing is
// left, and there is room for what fits.
func TestFull(t *testing.T) {
	root := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=256k,mode=0700", "tmpfs", root).CombinedOutput(); err != nil {
		t.Fatalf("mount a small tmpfs: %v: %s (this test needs root)", err, out)
	}
	defer syscall.Unmount(root, syscall.MNT_DETACH)
	s := open(t, root)
	big := make([]byte, 1<<20)
	err := s.Put(t.Context(), "a/big", bytes.NewReader(big), int64(len(big)))
	if !errors.Is(err, objectstore.ErrFull) || !strings.Contains(err.Error(), "a/big") {
		t.Fatalf("put: error %v, want ErrFull naming the object", err)
	}
	if _, err := s.Get(t.Context(), "a/big", 0, -1); !errors.Is(err, objectstore.ErrNotFound) {
		t.Fatalf("get: error %v, want ErrNotFound", err)
	}
	wantNoTemp(t, root)
	if err := s.Put(t.Context(), "a/small", bytes.NewReader(big[:100_000]), 100_000); err != nil {
		t.Fatalf("put what fits: %v", err)
	}
}

func TestSymlinksAreNotObjects(t *testing.T) {
	root := t.TempDir()
	s := open(t, root)
	if err := os.Symlink("/etc/hostname", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "link", 0, -1); err == nil {
		t.Fatal("get followed a symlink out of the directory")
	}
	err := s.List(t.Context(), "", func(i objectstore.Info) error {
		t.Errorf("listed %s", i.Name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What doesn't fit is refused before anything of it is read or written.
func TestTooBigForTheDisk(t *testing.T) {
	root := t.TempDir()
	untouched := called(func() { t.Error("the content was read") })
	if err := open(t, root).Put(t.Context(), "a/b", untouched, 1<<60); !errors.Is(err, objectstore.ErrFull) {
		t.Fatalf("an exabyte: %v, want ErrFull", err)
	}
	wantNoTemp(t, root)
}

// called is a reader that calls a function.
type called func()

func (f called) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}
