package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/diapause/diapause/services/datadir"
)

// scratch makes the scratch directory of a data directory.
func scratch(t *testing.T, data string) *Scratch {
	t.Helper()
	s, err := NewScratch(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r := s.Writable().Run(t.Context()); r.Status != OK {
		t.Fatalf("%s: %s", r.Status, r.Detail)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// initialised makes a data directory, and gives it closed.
func initialised(t *testing.T) string {
	t.Helper()
	d, err := datadir.Open(filepath.Join(t.TempDir(), "data"), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return d.Path()
}

func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

func TestDataDirectoryBeforeTheFirstStart(t *testing.T) {
	above := t.TempDir()
	path := filepath.Join(above, "var", "data")
	want(t, "none", DataDirectory(path).Run(t.Context()), OK, "makes")
	want(t, "no keys", Keys(path).Run(t.Context()), OK, "none yet")
	s := scratch(t, path)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left := names(t, above); left != "" {
		t.Errorf("left: %s", left)
	}
}

func TestAnEmptyDataDirectoryStaysEmpty(t *testing.T) {
	path := t.TempDir()
	scratch(t, path)
	if left := names(t, path); left != "" {
		t.Errorf("it holds %s", left)
	}
	want(t, "empty", DataDirectory(path).Run(t.Context()), OK, "empty")
}

func TestDataDirectoryInUse(t *testing.T) {
	d, err := datadir.Open(initialised(t), "")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	want(t, "starting", DataDirectory(d.Path()).Run(t.Context()), OK, "starting")
	if err := d.Serving("nats://127.0.0.1:1", "", ""); err != nil {
		t.Fatal(err)
	}
	want(t, "in use", DataDirectory(d.Path()).Run(t.Context()), OK, "nats://127.0.0.1:1")
	want(t, "keys", Keys(d.Path()).Run(t.Context()), OK, "signing.key")
}

func TestDataDirectoryThatCannotBeUsed(t *testing.T) {
	for says, spoil := range map[string]func(path string) error{
		"mode 0755":         func(p string) error { return os.Chmod(p, 0o755) },
		"version 9":         func(p string) error { return os.WriteFile(p+"/version", []byte("9"), 0o600) },
		"holds no version":  func(p string) error { return os.WriteFile(p+"/version", []byte("x"), 0o600) },
		"host's id":         func(p string) error { return os.Remove(p + "/host") },
		"not a data direct": func(p string) error { return os.Rename(p+"/version", p+"/else") },
	} {
		path := initialised(t)
		if err := spoil(path); err != nil {
			t.Fatal(err)
		}
		want(t, says, DataDirectory(path).Run(t.Context()), Fail, says)
	}
}

func TestKeysThatCannotBeUsed(t *testing.T) {
	for says, spoil := range map[string]func(path string) error{
		"is gone":         func(p string) error { return os.Remove(p + "/keys/identity.txt") },
		"others may read": func(p string) error { return os.Chmod(p+"/keys/signing.key", 0o644) },
		"doesn't hold":    func(p string) error { return os.WriteFile(p+"/keys/signing.key", []byte("secret"), 0o600) },
	} {
		path := initialised(t)
		if err := spoil(path); err != nil {
			t.Fatal(err)
		}
		r := Keys(path).Run(t.Context())
		want(t, says, r, Fail, says)
		if strings.Contains(r.Detail, "secret") {
			t.Errorf("it quotes a key: %s", r.Detail)
		}
	}
}

func TestWhereNothingCanBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, path := range map[string]string{"no file system for files": "/proc/sys/data", "below a file": file + "/data"} {
		s, err := NewScratch(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		want(t, what, s.Writable().Run(t.Context()), Fail, "")
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

func TestWhatAKilledDoctorLeftIsRemoved(t *testing.T) {
	data := initialised(t)
	before := names(t, data)
	dead := filepath.Join(data, scratchPrefix+"123")
	if err := os.MkdirAll(filepath.Join(dead, "canary", "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	living := scratch(t, data)
	if _, err := os.Stat(dead); err == nil {
		t.Error("what was left is still there")
	}
	second := scratch(t, data)
	if _, err := living.Make("still"); err != nil {
		t.Errorf("a second doctor took the first one's directory: %v", err)
	}
	for _, s := range []*Scratch{living, second} {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if after := names(t, data); after != before {
		t.Errorf("the data directory holds %s, and held %s", after, before)
	}
}

func TestWhatIsLeftIsReclaimedFirst(t *testing.T) {
	data := initialised(t)
	dead := filepath.Join(data, scratchPrefix+"123")
	if err := os.Mkdir(dead, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := NewScratch(data, func(_ context.Context, dir string) error {
		if dir != dead {
			t.Errorf("asked to reclaim %s, want %s", dir, dead)
		}
		return errors.New("a shim that doesn't end")
	})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "left", s.Writable().Run(t.Context()), Fail, "a shim that doesn't end")
	if _, err := os.Stat(dead); err != nil {
		t.Errorf("it was removed without being reclaimed: %v", err)
	}
}
