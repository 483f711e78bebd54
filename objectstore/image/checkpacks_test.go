package image

import (
	"os"
	"strings"
	"testing"
)

func TestCheckPacks(t *testing.T) {
	f := newFixtureAt(t, shmDir(t, "intact"))
	head, _ := f.chain()
	r := f.open(head)
	if err := r.CheckPacks(t.Context()); err != nil {
		t.Fatalf("an image that is whole: %v", err)
	}
	if len(r.packs) < 2 {
		t.Fatalf("the image has %d packs, want some of its parent too", len(r.packs))
	}
	for _, p := range r.packs {
		good, err := os.ReadFile(f.path(p.name))
		if err != nil {
			t.Fatal(err)
		}
		for what, bad := range damages(good) {
			replace(t, f.path(p.name), bad)
			f.wantUnfit(r, p.name, what)
		}
		if err := os.Remove(f.path(p.name)); err != nil {
			t.Fatal(err)
		}
		f.wantUnfit(r, p.name, "missing")
		replace(t, f.path(p.name), good)
	}
	if err := r.CheckPacks(t.Context()); err != nil {
		t.Errorf("an image that is whole again: %v", err)
	}
}

func (f *fixture) wantUnfit(r *Reader, name, what string) {
	f.Helper()
	if err := r.CheckPacks(f.Context()); !refused(err) || !strings.Contains(err.Error(), name) {
		f.Errorf("%s: %s: error %v, want one that names the object", name, what, err)
	}
}
