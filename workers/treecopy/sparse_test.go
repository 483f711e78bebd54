package treecopy

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file that says to be larger than any disk is refused before its holes are sent as zeros.
func TestSparseFiles(t *testing.T) {
	dir := t.TempDir()
	sparse := func(name string, size, data int64) {
		t.Helper()
		write(t, filepath.Join(dir, name), "first")
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := f.Truncate(size); err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("last"), data); err != nil {
			t.Fatal(err)
		}
	}
	sparse("huge/file", 4<<40, 2<<40)
	sparse("tail/file", 3<<30, 4<<10)
	sparse("little/file", 3<<20, 1<<20)
	for name, size := range map[string]string{"/huge": "4T", "/huge/file": "4T", "/tail": "3G"} {
		stream, err := get(t, open(t, dir), name)
		if err == nil || !strings.Contains(err.Error(), "says to have "+size) || !strings.Contains(err.Error(), "tar -cSf") {
			t.Errorf("%s is sent: %v", name, err)
		}
		if len(stream) > 1<<20 {
			t.Errorf("of %s %d bytes were sent", name, len(stream))
		}
	}
	stream, err := get(t, open(t, dir), "/little")
	if err != nil || !bytes.Contains(stream, []byte("last")) || len(stream) < 3<<20 {
		t.Errorf("of a file with a few holes %d bytes were sent, %v", len(stream), err)
	}
}
