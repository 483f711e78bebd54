package stack

import (
	"os"
	"path/filepath"
	"testing"
)

// Fresh builds the program and gives a stack that isn't up yet, and the directory that
// its data and other files of the test are in. With the test it is closed, and what
// is left behind then is the test's failure.
func Fresh(t testing.TB) (s *Stack, dir string) {
	t.Helper()
	dir, err := Dir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program, err := Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	s = New(program, filepath.Join(dir, "data"))
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("clean up: %v", err)
		}
		if t.Failed() {
			t.Logf("the daemon printed:\n%s", s.Log())
		}
	})
	return s, dir
}
