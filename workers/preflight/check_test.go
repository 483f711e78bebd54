package preflight_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/preflight"
	"github.com/diapause/diapause/workers/tree"
	"golang.org/x/sys/unix"
)

// TestNamesWhatBlocks has a program for each kind of blocker: it must be named
// while the session runs, and CRIU must really be unable to capture it.
func TestNamesWhatBlocks(t *testing.T) {
	for _, c := range []struct {
		role, arg string
		what      string // of the blocker, or a part of it
		fix       string // or a part of it
		dumps     bool   // CRIU dumps it, and can't restore it, or not as it was
	}{
		{role: "io_uring", what: ": io_uring", fix: "io_uring"},
		{role: "io_uring map", what: "anon_inode:[io_uring]", fix: "io_uring"},
		{role: "mptcp", what: ": MPTCP socket", fix: "GODEBUG=multipathtcp=0"},
		{role: "vsock", what: ": vsock socket", fix: "close"},
		{role: "namespace", arg: "pid", what: "pid namespace of its own", fix: "sandbox"},
		{role: "namespace", arg: "ipc", what: "ipc namespace of its own", fix: "sandbox"},
		{role: "namespace", arg: "uts", what: "uts namespace of its own", fix: "sandbox"},
		{role: "namespace", arg: "user", what: "user namespace of its own", fix: "sandbox"},
		{role: "namespace", arg: "cgroup", what: "cgroup namespace of its own", fix: "sandbox"},
		{role: "namespace", arg: "net", what: "net namespace of its own", fix: "sandbox", dumps: true},
		{role: "namespace only", arg: "time", what: "time namespace of its own", fix: "sandbox"},
		{role: "fanotify mark", arg: "filesystem:/", what: ": fanotify of a whole file system", fix: "watch", dumps: true},
		{role: "inotify ghost", what: "inotify of a file on overlay", fix: "watch"},
		{role: "traced", what: "traced by program", fix: "debugger"},
		{role: "ghost", arg: "3000000", what: ": /tmp/ghost", fix: "close"},
		{role: "open", arg: "/dev/fuse", what: ": /dev/fuse", fix: "device"},
		{role: "tun", what: ": /dev/net/tun", fix: "VPN"},
		{role: "block", arg: disk(t), what: ": /dev/test-disk", fix: "device"},
		{role: "block map", arg: disk(t), what: ": /dev/test-disk", fix: "device"},
		{role: "perf", what: ": perf event", fix: "profiler"},
		{role: "bpf", what: ": bpf-map", fix: "bpf"},
		{role: "userfaultfd", what: ": userfaultfd", fix: "turn it off"},
		{role: "memfd_secret", what: ": memfd_secret", fix: "secret memory"},
		{role: "secret map", what: ": /secretmem", fix: "secret memory"},
		{role: "landlock", what: ": landlock-ruleset", fix: "close"},
		{role: "mq", what: ": /queue", fix: "close"},
		{role: "zombie threads", what: "its first thread has ended", fix: "end"},
		{role: "chroot", what: "its root is /usr", fix: "root"},
	} {
		t.Run(strings.TrimSpace(c.role+" "+c.arg), func(t *testing.T) {
			s := begin(t, c.role, c.arg)
			blockers, _ := s.check(t)
			expectOne(t, blockers, c.what, c.fix)
			log, err := s.dump(t)
			if dumped := err == nil; dumped != c.dumps {
				t.Errorf("CRIU dumps it: %v, want %v; it says:\n%s", dumped, c.dumps, lastLines(log))
			}
		})
	}
}

func expectOne(t *testing.T, blockers []driver.Blocker, what, fix string) {
	t.Helper()
	if len(blockers) != 1 {
		t.Fatalf("%d blockers %v, want one", len(blockers), blockers)
	}
	b := blockers[0]
	if !strings.Contains(b.What, what) || !strings.Contains(b.Fix, fix) || b.Why == "" {
		t.Errorf("blocker %q, want %q to be fixed by %q", b, what, fix)
	}
	if b.PID < 1 || b.PID > 100 || b.Program == "" {
		t.Errorf("blocker %q: want a program and its pid in the session", b)
	}
}

func lastLines(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

// disk is the number of any block device of this machine.
func disk(t *testing.T) string {
	t.Helper()
	names, err := filepath.Glob("/sys/class/block/*/dev")
	if err != nil || len(names) == 0 {
		t.Fatalf("this machine has no block device to test with (%v)", err)
	}
	b, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// TestNamesWhatIsHeldOutside passes a session something whose other end the test
// keeps: first as a stranger's, then as held on purpose.
func TestNamesWhatIsHeldOutside(t *testing.T) {
	for _, c := range []struct {
		name  string
		make  func(t *testing.T) *os.File
		what  string
		fix   string
		dumps bool
	}{
		{"pipe", pipeEnd, ": pipe:[", "file", true},
		{"unix stream", unixEnd(unix.SOCK_STREAM), ": unix socket connected to a socket without a name", "within the session", false},
		{"unix datagram", unixEnd(unix.SOCK_DGRAM), ": unix socket connected to a socket without a name", "within the session", false},
		{"terminal", terminalEnd, ": /dev/pts/", "attach or exec", false},
		{"file", func(t *testing.T) *os.File { return file(t, "/dev/null") }, ": /dev/null", "again by its path", false},
		{"namespace", func(t *testing.T) *os.File { return file(t, "/proc/self/ns/uts") }, ": uts:[", "close", true},
		{"process", ownPidfd, ": pidfd of a process outside", "close", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := begin(t, "inherit", "", c.make(t))
			blockers, _ := s.check(t)
			expectOne(t, blockers, c.what, c.fix)
			log, err := s.dump(t)
			if dumped := err == nil; dumped != c.dumps {
				t.Errorf("CRIU dumps it: %v, want %v; it says:\n%s", dumped, c.dumps, lastLines(log))
			}
			link, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/3", s.pid))
			if err != nil {
				t.Fatal(err)
			}
			s.ends[link] = true
			if blockers, _ := s.check(t); len(blockers) > 0 {
				t.Errorf("held on purpose, and still a blocker: %v", blockers)
			}
		})
	}
}

func pipeEnd(t *testing.T) *os.File {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r
}

func unixEnd(kind int) func(*testing.T) *os.File {
	return func(t *testing.T) *os.File {
		pair, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
		t.Cleanup(func() { ours.Close(); theirs.Close() })
		return theirs
	}
}

func terminalEnd(t *testing.T) *os.File {
	master, slave, err := pty()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close(); slave.Close() })
	return slave
}

func file(t *testing.T, path string) *os.File {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func ownPidfd(t *testing.T) *os.File {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	t.Cleanup(func() { f.Close() })
	return f
}

// TestNamesUnixSocketByItsName connects to a datagram socket of the host, as to
// a system's log.
func TestNamesUnixSocketByItsName(t *testing.T) {
	name := fmt.Sprintf("@preflight-test-%d", os.Getpid())
	l, err := net.ListenPacket("unixgram", name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := begin(t, "unix dgram", name)
	blockers, _ := s.check(t)
	expectOne(t, blockers, "unix socket connected to "+name, "within the session")
	if log, err := s.dump(t); err == nil {
		t.Errorf("CRIU dumps it and says:\n%s", lastLines(log))
	}
}

// TestLooksIntoTheSessionsNetwork has a session with a network of its own, and
// this process keeps its own.
func TestLooksIntoTheSessionsNetwork(t *testing.T) {
	before, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	s := beginIn(t, unix.CLONE_NEWNET, "unix backlog", "")
	if blockers, _ := s.check(t); len(blockers) > 0 {
		t.Errorf("blockers %v, want none", blockers)
	}
	s = beginIn(t, unix.CLONE_NEWNET, "inherit", "", unixEnd(unix.SOCK_STREAM)(t))
	blockers, _ := s.check(t)
	expectOne(t, blockers, ": unix socket of another network", "--network host")
	if after, err := os.Readlink("/proc/thread-self/ns/net"); after != before || err != nil {
		t.Errorf("this thread is in %s (%v) now, it was in %s", after, err, before)
	}
}

// TestSessionThatConnectsAllTheTime makes and ends connections and pipes while
// it is looked at: their ends are all inside.
func TestSessionThatConnectsAllTheTime(t *testing.T) {
	s := begin(t, "churn", "")
	for range 20 {
		if blockers, _ := s.check(t); len(blockers) > 0 {
			t.Fatalf("blockers %v, want none", blockers)
		}
	}
}

// TestNamesOtherUser expects of the machine what it can do: with
// CAP_SYS_RESOURCE another user's processes are captured, without they are named.
func TestNamesOtherUser(t *testing.T) {
	s := begin(t, "other user", "")
	blockers, _ := s.check(t)
	log, err := s.dump(t)
	if able := err == nil; able != (len(blockers) == 0) {
		t.Fatalf("blockers %v, and CRIU dumps it: %v; it says:\n%s", blockers, able, lastLines(log))
	}
	if err != nil {
		expectOne(t, blockers, "it runs as user 12345", "capability")
	}
}

// TestDoesNotNameWhatIsCaptured is the other half: what CRIU captures must not
// be called a blocker.
func TestDoesNotNameWhatIsCaptured(t *testing.T) {
	for _, c := range []struct{ role, arg string }{
		{"clean", ""},
		{"packet", ""}, {"raw", ""}, {"udp", ""}, {"netlink", ""},
		{"namespace", "mnt"}, {"namespace only", "pid"}, {"namespace fd", ""},
		{"fanotify", ""}, {"fanotify mark", "mount:/"}, {"fanotify mark", "inode:/tmp"},
		{"inotify", "/tmp"}, {"inotify", "/etc/passwd"}, {"inotify", "/dev/shm"}, {"inotify", "/usr/share"}, {"inotify", "/proc"},
		{"lease", ""}, {"ofd lock", ""}, {"pidfd", ""}, {"zombie", ""}, {"lonely pty", ""},
		{"seccomp", ""}, {"stopped", ""}, {"sysv", ""}, {"aio", ""}, {"half pipe", ""}, {"fifo", ""},
		{"unix closed", ""}, {"unix backlog", ""}, {"epoll closed", ""}, {"o_path", "/etc"}, {"child chroot", ""},
	} {
		t.Run(strings.TrimSpace(c.role+" "+c.arg), func(t *testing.T) {
			s := begin(t, c.role, c.arg)
			if blockers, _ := s.check(t); len(blockers) > 0 {
				t.Errorf("blockers %v, want none", blockers)
			}
			watched, err := tree.Watches(t.Context(), s.pids(t))
			if err != nil {
				t.Fatal(err)
			}
			if log, err := s.dump(t, watched...); err != nil {
				t.Errorf("CRIU can't dump it: %v\n%s", err, lastLines(log))
			}
		})
	}
}

// TestWarns has a program for each thing that is lost, or that stops a capture
// for a moment only.
func TestWarns(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, c := range []struct {
		role, arg string
		warning   string
		dumps     bool
	}{
		{"dial", l.Addr().String(), " to " + l.Addr().String() + " will be closed", true},
		{"netlink data", "", ": a netlink socket has something to read", false},
		{"corked", "", ": a UDP socket holds a datagram back", false},
		{"tcp backlog", "", "accepted yet: it will be reset", true},
	} {
		t.Run(c.role, func(t *testing.T) {
			s := begin(t, c.role, c.arg)
			blockers, warnings := s.check(t)
			if len(blockers) > 0 || !slices.ContainsFunc(warnings, func(w schemas.Warning) bool {
				return strings.Contains(w.Text, c.warning) && strings.HasPrefix(w.Text, "program (pid 1): ")
			}) {
				t.Errorf("blockers %v, warnings %v, want only a warning of %q", blockers, warnings, c.warning)
			}
			log, err := s.dump(t)
			if dumped := err == nil; dumped != c.dumps {
				t.Errorf("CRIU dumps it: %v, want %v; it says:\n%s", dumped, c.dumps, lastLines(log))
			}
		})
	}
}

func TestCheckOfProcessesThatAreGone(t *testing.T) {
	s := begin(t, "clean", "")
	p, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	blockers, _, err := preflight.Check(t.Context(), append(s.pids(t), p.Pid), preflight.Options{Init: s.pid, External: func(link string) bool { return s.ends[link] }})
	if err != nil || len(blockers) > 0 {
		t.Errorf("blockers %v (%v), want none", blockers, err)
	}
}

func TestCheckEndsWithItsContext(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, _, err := preflight.Check(ctx, []int{os.Getpid()}, preflight.Options{Init: os.Getpid()}); err == nil {
		t.Error("a cancelled check said that all is well")
	}
}
