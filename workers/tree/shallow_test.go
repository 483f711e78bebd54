package tree

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestShallow finds what lies in one of the usual directories, and leaves the rest to
// the search below them.
func TestShallow(t *testing.T) {
	top := t.TempDir()
	if err := os.MkdirAll(filepath.Join(top, "etc/xdg/deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	var watches [2]Watch
	s := search{wanted: map[[2]uint64][]*Watch{}, on: map[uint64]bool{}, seen: map[string]bool{}}
	for i, path := range []string{"/etc/xdg", "/etc/xdg/deep"} {
		var st syscall.Stat_t
		if err := syscall.Lstat(top+path, &st); err != nil {
			t.Fatal(err)
		}
		id := fileID(&st)
		s.wanted[id] = []*Watch{&watches[i]}
		s.on[id[0]] = true
	}
	s.shallow(t.Context(), top, []string{"/home", "/etc"})
	if watches[0].Path != "/etc/xdg" || watches[1].Path != "" {
		t.Errorf("the shallow search found %q and %q", watches[0].Path, watches[1].Path)
	}
	s.below(t.Context(), top, []string{"/etc"})
	if watches[1].Path != "/etc/xdg/deep" {
		t.Errorf("the search below found %q", watches[1].Path)
	}
}
