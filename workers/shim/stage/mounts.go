package stage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/shim/tiny"
)

// What the session finds at fixed places.
const (
	// Home is the directory of what Diapause keeps inside a session.
	Home = "/run/diapause"
	// GenerationPath tells programs how they came to run: JSON, replaced before
	// the first instruction after each resume, fork or rollback.
	GenerationPath = Home + "/generation"

	initPath = Home + "/init"
)

// build makes the session's root this process's, with all that belongs in it.
func build(c Config) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	terminals, err := unix.OpenTree(unix.AT_FDCWD, c.Terminals, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("take the session's terminals: %w", err)
	}
	if err := enter(c.Root); err != nil {
		return err
	}
	// From here on every path is the session's own, symlinks included.
	for _, m := range fileSystems {
		if err := m.mount(); err != nil {
			return err
		}
	}
	if err := makeDevices(); err != nil {
		return err
	}
	if err := unix.MoveMount(terminals, "", unix.AT_FDCWD, "/dev/pts", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount /dev/pts: %w", err)
	}
	if err := hide(); err != nil {
		return err
	}
	if err := furnish(c); err != nil {
		return err
	}
	if c.Loopback {
		return LoopbackUp()
	}
	return nil
}

// enter makes root the root of this mount namespace and unmounts the old one.
func enter(root string) error {
	if err := unix.Chdir(root); err != nil {
		return fmt.Errorf("enter the session's root: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("make the session's root the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the host's root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return fmt.Errorf("enter the session's root: %w", err)
	}
	return nil
}

// fileSystem is one that every session has.
type fileSystem struct {
	kind, at string
	flags    uintptr
	data     string
}

const quiet = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

var fileSystems = []fileSystem{
	{"proc", "/proc", quiet, ""},
	{"sysfs", "/sys", quiet | unix.MS_RDONLY, ""},
	{"tmpfs", "/dev", unix.MS_NOSUID, "mode=755,size=64m"},
	{"tmpfs", "/dev/shm", quiet &^ unix.MS_NOEXEC, "mode=1777"},
	{"tmpfs", "/run", unix.MS_NOSUID | unix.MS_NODEV, "mode=755"},
}

func (m fileSystem) mount() error {
	if err := os.MkdirAll(m.at, 0o755); err != nil {
		return fmt.Errorf("make a place for %s: %w", m.at, err)
	}
	if err := unix.Mount(m.kind, m.at, m.kind, m.flags, m.data); err != nil {
		return fmt.Errorf("mount %s on %s: %w", m.kind, m.at, err)
	}
	return nil
}

func makeDevices() error {
	for _, d := range []struct {
		name         string
		major, minor uint32
	}{{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}} {
		path := "/dev/" + d.name
		if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(d.major, d.minor))); err != nil {
			return fmt.Errorf("make %s: %w", path, err)
		}
		if err := os.Chmod(path, 0o666); err != nil {
			return fmt.Errorf("make %s: %w", path, err)
		}
	}
	for _, l := range [][2]string{
		{"/proc/self/fd", "fd"}, {"fd/0", "stdin"}, {"fd/1", "stdout"}, {"fd/2", "stderr"}, {"pts/ptmx", "ptmx"},
	} {
		if err := os.Symlink(l[0], "/dev/"+l[1]); err != nil {
			return fmt.Errorf("make /dev/%s: %w", l[1], err)
		}
	}
	if err := os.Mkdir("/dev/pts", 0o755); err != nil {
		return fmt.Errorf("make /dev/pts: %w", err)
	}
	return nil
}

// The parts of /proc and /sys that root of a session must not write, or not see: Docker's.
var (
	readOnly = []string{"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"}
	unseen   = []string{"/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/latency_stats", "/proc/kpagecount", "/proc/kpageflags"}
	emptied  = []string{"/proc/scsi", "/proc/acpi", "/proc/asound", "/sys/firmware", "/sys/devices/virtual/powercap", "/sys/kernel/debug", "/sys/kernel/tracing"}
)

func hide() error {
	for _, path := range readOnly {
		if err := protect(path); err != nil {
			return err
		}
	}
	for _, path := range unseen {
		err := unix.Mount("/dev/null", path, "", unix.MS_BIND, "")
		if err != nil && err != unix.ENOENT {
			return fmt.Errorf("hide %s: %w", path, err)
		}
	}
	return empty(emptied)
}

// empty mounts one empty file system over all of the paths that exist. CRIU runs tar for each
// file system in memory at a dump and at a restore.
func empty(paths []string) error {
	made := ""
	for _, path := range paths {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			continue
		}
		source, kind, flags, data := "tmpfs", "tmpfs", uintptr(quiet|unix.MS_RDONLY), "mode=555,size=4k"
		if made != "" {
			source, kind, flags, data = made, "", unix.MS_BIND, "" // as read-only as what it is bound to
		}
		if err := unix.Mount(source, path, kind, flags, data); err != nil {
			return fmt.Errorf("hide %s: %w", path, err)
		}
		if made == "" {
			made = path
		}
	}
	return nil
}

func protect(path string) error {
	err := unix.Mount(path, path, "", unix.MS_BIND|unix.MS_REC, "")
	if err == unix.ENOENT {
		return nil
	}
	if err == nil {
		err = unix.Mount("", path, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|quiet, "")
	}
	if err != nil {
		return fmt.Errorf("make %s read-only: %w", path, err)
	}
	return nil
}

// Resolver reads the host's resolv.conf if it lies below /run, which is another
// one in a session.
func Resolver() []byte {
	target, err := filepath.EvalSymlinks("/etc/resolv.conf")
	if err != nil || !strings.HasPrefix(target, "/run/") {
		return nil
	}
	// Without it names can't be resolved, which is no reason not to start.
	content, _ := os.ReadFile(target)
	return content
}

// HostResolver reads the host's resolv.conf, wherever it lies.
func HostResolver() []byte {
	// Without it names can't be resolved, which is no reason not to start.
	content, _ := os.ReadFile(resolverPath)
	return content
}

func furnish(c Config) error {
	elf, err := tiny.Init()
	if err != nil {
		return refuse("%v", err)
	}
	for _, d := range []struct {
		path string
		mode os.FileMode
	}{{Home, 0o755}, {"/run/lock", 0o1777 | os.ModeSticky}, {"/run/user", 0o755}} {
		if err := os.Mkdir(d.path, 0o755); err != nil {
			return fmt.Errorf("make %s: %w", d.path, err)
		}
		if err := os.Chmod(d.path, d.mode); err != nil {
			return fmt.Errorf("make %s: %w", d.path, err)
		}
	}
	if err := os.WriteFile(initPath, elf, 0o555); err != nil {
		return fmt.Errorf("place the session's init: %w", err)
	}
	if err := os.WriteFile(GenerationPath, c.Generation, 0o444); err != nil {
		return fmt.Errorf("write the generation file: %w", err)
	}
	if err := placeFiles(c.Files); err != nil {
		return err
	}
	if c.Image {
		if err := completeImage(); err != nil {
			return err
		}
	}
	return placeResolver(c.Resolver, c.OwnResolver)
}

// placeFiles writes files below Home that everyone in the session may read.
func placeFiles(files map[string][]byte) error {
	for path, content := range files {
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		for dir := filepath.Dir(path); err == nil && len(dir) > len(Home); dir = filepath.Dir(dir) {
			err = os.Chmod(dir, 0o755)
		}
		if err == nil {
			err = os.WriteFile(path, content, 0o444)
		}
		if err == nil {
			err = os.Chmod(path, 0o444)
		}
		if err != nil {
			return fmt.Errorf("place %s: %w", path, err)
		}
	}
	return nil
}

const resolverPath = "/etc/resolv.conf"

// placeResolver puts resolv.conf where the session's own symlink has it, if that is below /run,
// and with own in the place of another one.
func placeResolver(content []byte, own bool) error {
	link, err := os.Readlink(resolverPath)
	if content == nil || err != nil && !own {
		return nil
	}
	if !filepath.IsAbs(link) {
		link = filepath.Join("/etc", link)
	}
	if !strings.HasPrefix(link, "/run/") {
		if !own {
			return nil
		}
		if err := os.Remove(resolverPath); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("place resolv.conf: %w", err)
		}
		link = resolverPath
	}
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return fmt.Errorf("place resolv.conf: %w", err)
	}
	if err := os.WriteFile(link, content, 0o644); err != nil {
		return fmt.Errorf("place resolv.conf: %w", err)
	}
	return nil
}

// LoopbackUp brings up the loopback interface of the calling thread's network
// namespace: it is what a new network namespace needs for 127.0.0.1 to work.
func LoopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("bring the loopback interface up: %w", err)
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("bring the loopback interface up: %w", err)
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req); err != nil {
		return fmt.Errorf("bring the loopback interface up: %w", err)
	}
	return nil
}
