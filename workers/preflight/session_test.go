package preflight_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/cgroup"
	"github.com/diapause/diapause/workers/criu"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/preflight"
	"github.com/diapause/diapause/workers/tree"
	"golang.org/x/sys/unix"
)

func init() {
	if os.Getenv("PREFLIGHT_ROLE") == "thread leaver" {
		runtime.LockOSThread() // the first thread, for init and main run on it
		leaveThread()
	}
}

// TestMain lets the test binary be what the tests look at: first it sets the
// session up around itself, then it runs again inside, in its role.
func TestMain(m *testing.M) {
	role := os.Getenv("PREFLIGHT_ROLE")
	var err error
	switch {
	case role == "":
		os.Exit(m.Run())
	case os.Getenv("PREFLIGHT_STAGE") != "":
		err = stage(os.Getenv("PREFLIGHT_STAGE"))
	default:
		err = play(role)
	}
	if err != nil {
		fmt.Println(role+":", err)
		os.Exit(1)
	}
}

func play(role string) error {
	does, ok := roles[role]
	if !ok {
		return errors.New("there is no such role")
	}
	null, err := unix.Open("/dev/null", unix.O_RDWR, 0) // the one it has is of the machine's mounts
	if err != nil {
		return err
	}
	if err := errors.Join(unix.Dup2(null, 2), unix.Close(null)); err != nil {
		return err
	}
	if err := does(os.Getenv("PREFLIGHT_ARG")); err != nil {
		return err
	}
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// stage gives this process, which is the first one of new namespaces, a root of
// its own as a session has it: an overlay on the machine's, with /proc, /dev and
// /tmp. It executes this program there.
func stage(dir string) error {
	root := filepath.Join(dir, "root")
	// Not before it is in its group: what it starts must be in there too.
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
		return err
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"private mounts", func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }},
		{"scratch", func() error { return unix.Mount("scratch", dir, "tmpfs", 0, "") }},
		{"directories", func() error { return makeDirs(dir, "root", "upper/tmp", "upper/old", "work") }},
		{"program", func() error { return copyProgram(filepath.Join(dir, "upper", "program")) }},
		{"root", func() error {
			return unix.Mount("overlay", root, "overlay", 0, fmt.Sprintf("lowerdir=/,upperdir=%s/upper,workdir=%s/work,xino=on", dir, dir))
		}},
		{"proc", func() error { return unix.Mount("proc", root+"/proc", "proc", 0, "") }},
		{"devices", func() error { return devices(root + "/dev") }},
		{"new root", func() error { return unix.PivotRoot(root, root+"/old") }},
		{"directory", func() error { return unix.Chdir("/") }},
		{"old root", func() error { return unix.Unmount("/old", unix.MNT_DETACH) }},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("set up %s: %w", step.what, err)
		}
	}
	if err := errors.Join(os.Unsetenv("PREFLIGHT_STAGE"), os.Setenv("GODEBUG", "multipathtcp=0")); err != nil {
		return err
	}
	first, err := strconv.ParseUint(os.Getenv("PREFLIGHT_FREE_FD"), 10, 31)
	if err != nil {
		return err
	}
	if err := unix.CloseRange(uint(first), 1<<31-1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return err
	}
	return unix.Exec("/program", []string{"program"}, os.Environ())
}

func makeDirs(dir string, names ...string) error {
	for _, n := range names {
		if err := os.MkdirAll(filepath.Join(dir, n), 0o755); err != nil {
			return err
		}
	}
	return nil
}

func copyProgram(to string) error {
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer from.Close()
	f, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}

func devices(dev string) error {
	if err := unix.Mount("dev", dev, "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	if err := makeDirs(dev, "pts", "shm", "net", "mqueue"); err != nil {
		return err
	}
	for name, d := range map[string][2]uint32{"null": {1, 3}, "zero": {1, 5}, "full": {1, 7}, "random": {1, 8}, "urandom": {1, 9},
		"tty": {5, 0}, "fuse": {10, 229}, "kvm": {10, 232}, "net/tun": {10, 200}} {
		if err := unix.Mknod(filepath.Join(dev, name), unix.S_IFCHR|0o666, int(unix.Mkdev(d[0], d[1]))); err != nil {
			return err
		}
	}
	if err := os.Symlink("pts/ptmx", filepath.Join(dev, "ptmx")); err != nil {
		return err
	}
	if err := unix.Mount("shm", dev+"/shm", "tmpfs", 0, ""); err != nil {
		return err
	}
	return unix.Mount("devpts", dev+"/pts", "devpts", 0, "newinstance,ptmxmode=0666")
}

// session is a small one, as a driver would make it.
type session struct {
	pid   int // its first process, as this one sees it
	group *cgroup.Group
	ends  map[string]bool // links of the files that the test holds the other end of
}

// begin starts a role as a session of its own and waits until it says that it
// is ready. files become its number 3 and so on.
func begin(t *testing.T, role, arg string, files ...*os.File) *session {
	t.Helper()
	return beginIn(t, 0, role, arg, files...)
}

// beginIn begins it in more namespaces.
func beginIn(t *testing.T, more uintptr, role, arg string, files ...*os.File) *session {
	t.Helper()
	h, err := cgroup.Open("diapause-test/" + rand.Text())
	if err != nil {
		t.Fatal(err)
	}
	g, err := h.Create("session", cgroup.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "PREFLIGHT_ROLE="+role, "PREFLIGHT_ARG="+arg, "PREFLIGHT_STAGE="+t.TempDir(),
		"PREFLIGHT_FREE_FD="+strconv.Itoa(3+len(files)))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | more}
	cmd.ExtraFiles = files
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
		defer stop()
		err := g.Kill(ctx)
		_ = in.Close()
		_ = cmd.Wait()
		if err := errors.Join(err, g.Remove(), h.Remove()); err != nil {
			t.Error(err)
		}
	})
	if err := g.Add(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	s := &session{pid: cmd.Process.Pid, group: g, ends: map[string]bool{}}
	if said, err := bufio.NewReader(out).ReadString('\n'); said != "ready\n" {
		t.Fatalf("the session said %q (%v)", strings.TrimSpace(said), err)
	}
	for _, fd := range []string{"0", "1"} {
		link, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", s.pid, fd))
		if err != nil {
			t.Fatal(err)
		}
		s.ends[link] = true
	}
	return s
}

// check is what the tests test, of a session.
func (s *session) check(t *testing.T) ([]driver.Blocker, []schemas.Warning) {
	t.Helper()
	blockers, warnings, err := preflight.Check(t.Context(), s.pids(t), preflight.Options{
		Init: s.pid, External: func(link string) bool { return s.ends[link] }, GhostLimit: ghostLimit,
	})
	if err != nil {
		t.Fatal(err)
	}
	if frozen, err := s.group.State(); frozen || err != nil {
		t.Fatalf("the session is frozen: %v (%v)", frozen, err)
	}
	return blockers, warnings
}

func (s *session) pids(t *testing.T) []int {
	t.Helper()
	all, err := s.group.Pids()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// dump has CRIU dump the session, which goes on, and returns what it said.
func (s *session) dump(t *testing.T, watched ...tree.Watch) (log string, err error) {
	t.Helper()
	argv, err := criu.Find()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.Command(argv[0], append(argv[1:], "dump", "--tree", fmt.Sprint(s.pid), "--images-dir", dir, "--log-file", "log", "-v4", "--leave-running",
		"--file-locks", "--link-remap", "--ghost-limit", fmt.Sprint(ghostLimit), "--manage-cgroups=ignore", "--tcp-close", "--skip-in-flight",
		"--external", "mnt[/]:root", "--root", fmt.Sprintf("/proc/%d/root", s.pid))...)
	for _, w := range watched {
		if w.Named {
			cmd.Args = append(cmd.Args, "--irmap-scan-path", w.Path)
		}
	}
	err = cmd.Run()
	b, readErr := os.ReadFile(filepath.Join(dir, "log"))
	if readErr != nil {
		t.Fatal(err, readErr)
	}
	return string(b), err
}

const ghostLimit = 1 << 20
