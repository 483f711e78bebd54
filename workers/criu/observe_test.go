package criu

import (
	"fmt"
	"os"
	"reflect"
	"syscall"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
	"github.com/diapause/diapause/workers/shim"
)

// Looking at an idle session asks nothing of its shim, which may stand still. What makes the
// session run is seen by the next look.
func TestIdleSessionsAreNotAsked(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	s := begin(t, d, "s", schemas.Spec{Command: []string{"/bin/sh", "-c", "mkfifo /tmp/f; read line </tmp/f; sleep 1000 & exec sleep 1000"}})
	s.sh("until [ -p /tmp/f ]; do :; done")
	first := s.settled()
	if first.PID == 0 || first.Processes != 2 {
		t.Errorf("it is seen as %+v", first)
	}
	group, ok := d.shims.hierarchy.Group(shim.ShimGroup("s"))
	if !ok {
		t.Fatal("its shim has no cgroup")
	}
	pids, err := group.Pids()
	if err != nil {
		t.Fatal(err)
	}
	signal(t, pids, syscall.SIGSTOP)
	for range 3 {
		if got := s.look(); !reflect.DeepEqual(got, first) {
			t.Errorf("it is seen as %+v, was %+v", got, first)
		}
	}
	signal(t, pids, syscall.SIGCONT)
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/root/tmp/f", first.PID), []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(drivertest.Limit); s.look().Processes != 3; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("a process that it began isn't seen: %+v", s.look())
		}
	}
}

func signal(t *testing.T, pids []int, sig syscall.Signal) {
	t.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil {
			t.Fatal(err)
		}
	}
}

// look observes the session.
func (s *session) look() driver.Observation {
	s.t.Helper()
	o, err := s.d.Observe(limited(s.t), s.uid)
	if err != nil {
		s.t.Fatal(err)
	}
	return o
}

// settled observes the session until nothing has run between two looks.
func (s *session) settled() driver.Observation {
	s.t.Helper()
	for deadline := time.Now().Add(drivertest.Limit); ; time.Sleep(5 * time.Millisecond) {
		before, err := s.d.shims.cpu(s.uid)
		if err != nil {
			s.t.Fatal(err)
		}
		o := s.look()
		if after, err := s.d.shims.cpu(s.uid); err == nil && after == before {
			return o
		}
		if time.Now().After(deadline) {
			s.t.Fatal("the session doesn't come to rest")
		}
	}
}
