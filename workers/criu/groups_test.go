package criu

import (
	"syscall"
	"testing"

	"github.com/diapause/diapause/schemas"
)

// A session has no group that its worker happens to be in, as root is of one after sudo: not
// at its start, and not when it is back. It changes the groups of this process, so it isn't
// parallel.
func TestGroupsOfTheWorker(t *testing.T) {
	were, err := syscall.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setgroups([]int{0, 4242}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setgroups(were); err != nil {
			t.Error(err)
		}
	}()
	d := open(t, t.TempDir())
	s := begin(t, d, "s", schemas.Spec{Command: []string{"/bin/sleep", "1000"}})
	groups := func() string {
		return s.sh(`for p in /proc/[0-9]*; do if [ "$(cat $p/comm 2>/dev/null)" = sleep ]; then grep ^Groups: $p/status; fi; done`)
	}
	if got := groups(); got != "Groups:" {
		t.Errorf("it begins with %q", got)
	}
	s.resume(s.suspend(), schemas.BootResume)
	if got := groups(); got != "Groups:" {
		t.Errorf("it is back with %q", got)
	}
}
