package tree

import (
	"os"
	"slices"
	"testing"
)

// What was asked for once is remembered, and nil remembers nothing.
func TestOpenedRemembers(t *testing.T) {
	opened := NewOpened()
	before, err := opened.FDs(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	has := func(o *Opened) bool {
		all, err := o.FDs(os.Getpid())
		if err != nil || !slices.IsSortedFunc(all, func(a, b FD) int { return a.Num - b.Num }) {
			t.Fatalf("error %v, or not in order: %v", err, all)
		}
		return slices.ContainsFunc(all, func(fd FD) bool { return fd.Link == f.Name() })
	}
	if len(before) == 0 || has(opened) || !has(nil) {
		t.Errorf("%d files before; it knows a later one: %v; nil knows it: %v", len(before), has(opened), has(nil))
	}
}
