package criu

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/shim"
)

// peak is the most memory that the session's rehearsal, which is under way, was charged with, in bytes.
func (s *session) peak() int64 {
	s.t.Helper()
	g, ok := s.d.shims.hierarchy.Group(shim.RehearsalGroup(s.uid))
	if !ok {
		s.t.Fatal("the rehearsal has no cgroup")
	}
	dir := g.FreezerPath()
	for _, file := range []string{ // of cgroup v2, and of v1, whose controllers have trees of their own
		filepath.Join(dir, "memory.peak"),
		filepath.Join(strings.Replace(dir, "/freezer/", "/memory/", 1), "memory.max_usage_in_bytes"),
	} {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		return n
	}
	s.t.Fatalf("cgroup %s counts no memory", dir)
	return 0
}

// TestRehearsalHoldsLittle has sessions with little and with much memory rehearsed, of their own, shared
// and in files without a name: the rehearsal takes as much for both.
func TestRehearsalHoldsLittle(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	const less, more, noise = 4, 128, 8 // MB; what the kernel and the loader take differs from time to time
	took := map[int]int64{}
	for _, size := range []int{less, more} {
		s := begin(t, d, fmt.Sprintf("of-%d", size), schemas.Spec{Command: []string{"/usr/bin/python3", "-c", fmt.Sprintf(`
import mmap, os, time
size = %d << 20
own = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); own.write(b"o" * size)
shared = mmap.mmap(-1, size); shared.write(b"s" * size)
f = os.memfd_create("m"); os.truncate(f, size); in_file = mmap.mmap(f, 0); in_file.write(b"f" * size)
gone = open("/tmp/gone", "w+b"); gone.write(b"g" * size); gone.flush(); os.unlink("/tmp/gone")
print("ready", flush=True)
while True:
    time.sleep(1000)`, size/4)}})
		s.want("ready")
		if err := s.stoppedAt(limited(t), failpoint.ShimRehearsed, func(int) { took[size] = s.peak() }); err != nil {
			t.Fatal(err)
		}
	}
	if took[less] == 0 || took[more]-took[less] > noise<<20 {
		t.Errorf("a rehearsal of %d MB takes %d bytes, of %d MB %d", less, took[less], more, took[more])
	}
}

// TestRehearsalRunsNoHook has a session with each hook rehearsed and let run: the one before a suspend
// has run, once, and none of those after a resume or in a fork.
func TestRehearsalRunsNoHook(t *testing.T) {
	t.Parallel()
	spec := counting
	spec.Hooks = schemas.Hooks{OnSuspend: "echo suspend >> /tmp/hooks", OnResume: "echo resume >> /tmp/hooks", OnFork: "echo fork >> /tmp/hooks"}
	s := begin(t, open(t, t.TempDir()), "hooks", spec)
	count(t, s.d, s.uid)
	if _, c, err := s.rehearse(schemas.RehearseAlways); err != nil || !c.Rehearsed {
		t.Fatalf("it is rehearsed: %t, %v", c.Rehearsed, err)
	}
	if err := s.d.Thaw(limited(t), s.next()); err != nil {
		t.Fatal(err)
	}
	count(t, s.d, s.uid)
	if got := s.sh("cat /tmp/hooks"); got != "suspend" {
		t.Errorf("hooks that have run: %q", got)
	}
}
