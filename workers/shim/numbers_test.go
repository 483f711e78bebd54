package shim

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/diapause/diapause/schemas"
)

// Files with other numbers are warned of, but what a link leads to outside the root isn't looked at.
func TestRenumbered(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	for _, name := range []string{filepath.Join(root, "inside"), filepath.Join(outside, "file")} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	got := renumbered(root, []numbered{{Path: "link/file"}, {Path: "inside"}, {Path: "gone"}})
	if len(got) != 1 || got[0].Code != schemas.WarnInodes || got[0].Subject != "/inside" {
		t.Errorf("it warns of %+v", got)
	}
	if got := renumbered(root, []numbered{{Path: "link/file"}}); got != nil {
		t.Errorf("of a file outside it warns %+v", got)
	}
}
