package mends

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

func TestMissing(t *testing.T) {
	if lacks := Missing([]string{"/no/such/ld.so", "/no/such/criu"}); !slices.Equal(lacks, All) {
		t.Errorf("a CRIU that says nothing lacks %v, want %v", lacks, All)
	}
	criu := filepath.Join(t.TempDir(), "criu")
	if err := os.WriteFile(criu+".mends", []byte("inotify\ntimerfd\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	lacks := Missing([]string{criu})
	if slices.Contains(lacks, "inotify") || len(lacks) != len(All)-2 {
		t.Errorf("a CRIU with two patches lacks %v", lacks)
	}
	if err := os.WriteFile(criu+".mends", []byte("tmpfs\nexit-kill\ninotify\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if kept := Kept([]string{criu}); !slices.Equal(kept, []string{"inotify"}) {
		t.Errorf("images of it need %v, want inotify alone", kept)
	}
}

// Each patch has its name here.
func TestAll(t *testing.T) {
	files, err := filepath.Glob("../../../criu/patches/*.patch")
	if err != nil || len(files) != len(All) {
		t.Fatalf("%d patches (%v), want %d", len(files), err, len(All))
	}
	name := regexp.MustCompile(`^\d+-(.*)\.patch$`)
	for i, f := range files {
		if m := name.FindStringSubmatch(filepath.Base(f)); m == nil || m[1] != All[i] {
			t.Errorf("patch %s, want one for %s", f, All[i])
		}
	}
}
