package attack

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Refusals of attempts that find nothing.
const (
	empty   = Refusal("empty")
	nowhere = Refusal("none found")
	ownCopy = Refusal("its own copy")
)

const immutable = 0x10 // FS_IMMUTABLE_FL

// What the host's bait is called, below Facts.Bait.
const (
	BaitFile   = "file"
	BaitPipe   = "pipe"
	BaitSocket = "socket"
	BaitDevice = "device"
	BaitShared = "diapause-attack" // below /dev/shm
)

func write(path string) func(Facts) error {
	return func(Facts) error { return openFor(path, unix.O_WRONLY) }
}

func read(path string) func(Facts) error {
	return func(Facts) error { return content(path) }
}

func openFor(path string, how int) error {
	fd, err := unix.Open(path, how|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// content reads some of a file: it is refused if there is none.
func content(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, make([]byte, 64))
	if err == nil && n == 0 {
		return empty
	}
	return err
}

// kernelFiles are what the kernel shows as files.
func kernelFiles() []Attempt {
	return []Attempt{
		{What: "write /proc/sysrq-trigger", Want: []string{"EROFS", "ENOENT"}, Try: write("/proc/sysrq-trigger")},
		{What: "write /proc/sys/kernel/core_pattern", Want: erofs, Control: true, Try: write("/proc/sys/kernel/core_pattern")},
		{What: "write /proc/sys/kernel/modprobe", Want: []string{"EROFS", "ENOENT"}, Try: write("/proc/sys/kernel/modprobe")},
		{What: "write any file of /proc/sys", Want: []string{string(nowhere)}, Control: true, Try: anyWritable("/proc/sys")},
		{What: "write any file of /sys", Want: []string{string(nowhere)}, Control: true, Try: anyWritable("/sys/kernel", "/sys/fs", "/sys/class", "/sys/module")},
		{What: "read /proc/kcore", Want: []string{"empty", "ENOENT"}, Try: read("/proc/kcore")},
		{What: "read /proc/kmsg", Want: eperm, Try: read("/proc/kmsg")},
		{What: "read /proc/keys", Want: []string{"empty", "ENOENT"}, Try: read("/proc/keys")},
		{What: "read /proc/timer_list", Want: []string{"empty", "ENOENT"}, Try: read("/proc/timer_list")},
		{What: "open a release_agent of cgroups", Want: []string{string(nowhere)}, Try: named("/sys/fs/cgroup", "release_agent")},
		{What: "open a cgroup.procs of the host", Want: []string{string(nowhere)}, Control: true, Try: named("/sys/fs/cgroup", "cgroup.procs")},
		{What: "open devices of the host", Want: enoent, Control: true, Try: devices},
		{What: "make a block device", Want: eperm, Control: true, Try: node(unix.S_IFBLK, 254, 0)},
		{What: "make /dev/mem", Want: eperm, Control: true, Try: node(unix.S_IFCHR, 1, 1)},
		{What: "make a file that overlays take for a deletion", Want: eperm, Control: true, Try: node(unix.S_IFCHR, 0, 0)},
		{What: "open a device that the host has beside its files", Want: []string{"EACCES"}, Control: true, Try: func(f Facts) error {
			return openFor(filepath.Join(f.Bait, BaitDevice), unix.O_RDONLY)
		}},
		{What: "escape from the killer of those who take all memory", Want: []string{"EACCES"}, Try: func(Facts) error {
			return os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0)
		}},
	}
}

// anyWritable opens every file below directories for writing, and writes nothing.
func anyWritable(dirs ...string) func(Facts) error {
	return func(Facts) error {
		found := error(nowhere)
		for _, dir := range dirs {
			err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
				if err != nil || !e.Type().IsRegular() || openFor(path, unix.O_WRONLY) != nil {
					return nil // what isn't seen can't be written
				}
				found = nil
				return fs.SkipAll
			})
			if err != nil || found == nil {
				return err
			}
		}
		return found
	}
}

// named opens every file of a name for writing.
func named(dir, name string) func(Facts) error {
	return func(Facts) error {
		found := error(nowhere)
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.Name() == name && openFor(path, unix.O_WRONLY) == nil {
				found = nil
			}
			return nil
		})
		return errors.Join(found, err)
	}
}

func devices(f Facts) error {
	if len(f.Devices) == 0 {
		return errors.New("the host has no devices")
	}
	for _, path := range f.Devices {
		if err := openFor(path, unix.O_RDONLY); err == nil {
			return nil
		} else if !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return unix.ENOENT
}

func node(kind uint32, major, minor uint32) func(Facts) error {
	return func(f Facts) error {
		path := filepath.Join(f.Bait, fmt.Sprintf("node-%d-%d", major, minor))
		if err := unix.Mknod(path, kind|0o600, int(unix.Mkdev(major, minor))); err != nil {
			return err
		}
		return os.Remove(path)
	}
}

// files are those of the host and of other sessions.
func files() []Attempt {
	return []Attempt{
		{What: "list the data directory", Want: []string{"empty"}, Control: true, Try: func(f Facts) error { return list(f.Data) }},
		{What: "read keys and credentials", Want: enoent, Control: true, Try: func(f Facts) error { return secrets(f, "") }},
		{What: "read them through /proc/1/root", Want: enoent, Try: func(f Facts) error { return secrets(f, "/proc/1/root") }},
		{What: "read them through /proc/1/cwd", Want: enoent, Try: func(f Facts) error { return secrets(f, "/proc/1/cwd/../../..") }},
		{What: "read them through the root of any process", Want: []string{string(nowhere)}, Control: true, Try: throughAll("root")},
		{What: "read them through a descriptor of any process", Want: []string{string(nowhere)}, Try: throughAll("fd/*/../../../../../..")},
		{What: "read them after chroot and ..", Want: enoent, Control: true, Try: spare(chrootAndUp)},
		{What: "read them through a symlink", Want: enoent, Control: true, Try: throughLink},
		{What: "make a hard link to one", Want: enoent, Try: func(f Facts) error { return os.Link(f.Secrets[0], filepath.Join(f.Bait, "hard")) }},
		{What: "rename the directory that has the data directory", Want: []string{"EXDEV", "ENOENT"}, Try: func(f Facts) error {
			away := filepath.Dir(f.Data) + "-away"
			if err := os.Rename(filepath.Dir(f.Data), away); err != nil {
				return err
			}
			return content(away + strings.TrimPrefix(f.Secrets[0], filepath.Dir(f.Data)))
		}},
		{What: "read a file outside of it that --hide names", Want: []string{"empty", "ENOENT"}, Control: true, Try: func(f Facts) error { return content(f.Hidden) }},
		{What: "list a store outside of it", Want: []string{"empty", "ENOENT"}, Control: true, Try: func(f Facts) error { return list(f.Store) }},
		{What: "remove what hides them, and make it again", Want: enoent, Try: func(f Facts) error {
			for _, dir := range []string{f.Data, f.Store, filepath.Dir(f.Hidden)} {
				if err := os.RemoveAll(dir); err != nil {
					return err
				}
				if err := os.MkdirAll(dir, 0o755); err != nil {
					return err
				}
			}
			if list(f.Store) == nil || content(f.Hidden) == nil {
				return nil
			}
			return secrets(f, "")
		}},
		{What: "search for them below all mounts", Want: []string{string(nowhere)}, Control: true, Try: search},
		{What: "write into a pipe of the host", Want: []string{"ENXIO"}, Control: true, Try: func(f Facts) error {
			return openFor(filepath.Join(f.Bait, BaitPipe), unix.O_WRONLY)
		}},
		{What: "connect to a unix socket of the host", Want: []string{"ECONNREFUSED"}, Control: true, Try: func(f Facts) error {
			return dial("unix", filepath.Join(f.Bait, BaitSocket))
		}},
		{What: "connect to a container engine's socket", Want: enoent, Try: func(Facts) error { return dial("unix", "/run/docker.sock") }},
		{What: "read the host's shared memory", Want: enoent, Control: true, Try: read("/dev/shm/" + BaitShared)},
		{What: "read the host's System V shared memory", Want: enoent, Control: true, Try: func(f Facts) error { return second(unix.SysvShmGet(f.IPC, 0, 0)) }},
		{What: "set an attribute that overlays trust", Want: eperm, Control: true, Try: func(f Facts) error {
			return unix.Setxattr(filepath.Join(f.Bait, BaitFile), "trusted.overlay.redirect", []byte("/x"), 0)
		}},
		{What: "make a file immutable", Want: []string{"EPERM", "EACCES"}, Try: func(f Facts) error {
			fd, err := unix.Open(filepath.Join(f.Bait, BaitFile), unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, immutable)
		}},
		// That the host's file stays as it was is looked at by the test.
		{What: "change a file of the host", Want: []string{string(ownCopy)}, Try: func(f Facts) error {
			if err := os.WriteFile(filepath.Join(f.Bait, BaitFile), []byte("changed"), 0o600); err != nil {
				return err
			}
			return ownCopy
		}},
		{What: "remove the files of the host", Want: []string{string(ownCopy)}, Try: func(f Facts) error {
			if err := os.RemoveAll(filepath.Join(f.Bait, "removed")); err != nil {
				return err
			}
			return ownCopy
		}},
	}
}

func list(dir string) error {
	all, err := os.ReadDir(dir)
	if err == nil && len(all) == 0 {
		return empty
	}
	return err
}

// secrets reads the first of them that is there.
func secrets(f Facts, prefix string) error {
	err := errors.New("there are no secrets")
	for _, path := range f.Secrets {
		if err = content(prefix + path); err == nil {
			return nil
		}
	}
	return err
}

func throughAll(what string) func(Facts) error {
	return func(f Facts) error {
		ways, err := filepath.Glob("/proc/[0-9]*/" + strings.SplitN(what, "/..", 2)[0])
		if err != nil {
			return err
		}
		for _, way := range ways {
			if secrets(f, way) == nil || secrets(f, way+"/../../../../../../..") == nil {
				return nil
			}
		}
		return nowhere
	}
}

// chrootAndUp leaves a root by a directory that was open before.
func chrootAndUp(f Facts) error {
	top, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Chroot("/etc")
	}
	if err == nil {
		err = unix.Fchdir(top)
	}
	if err != nil {
		return err
	}
	for range 16 {
		if err := unix.Chdir(".."); err != nil {
			return err
		}
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	return secrets(f, "")
}

func throughLink(f Facts) error {
	link := filepath.Join(f.Bait, "link")
	if err := os.Symlink(f.Secrets[0], link); err != nil {
		return err
	}
	defer os.Remove(link)
	return content(link)
}

// search looks for the secrets below each mount: under their whole path, as a copy of / would have them,
// and under each shorter one, as a mount of a directory above them would. A walk of all files would take
// as long as the machine's disk is large.
func search(f Facts) error {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 5 {
			return fmt.Errorf("mountinfo says %q", line)
		}
		for _, path := range f.Secrets {
			for rest := path; rest != ""; {
				if _, err := os.Stat(filepath.Join(unescaped.Replace(words[4]), rest)); err == nil {
					return nil
				}
				_, rest, _ = strings.Cut(strings.TrimPrefix(rest, "/"), "/")
			}
		}
	}
	return nowhere
}

// unescaped is how the kernel writes a mount's path.
var unescaped = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

func dial(network, address string) error {
	c, err := net.DialTimeout(network, address, short)
	if err != nil {
		return err
	}
	return c.Close()
}

// short is how long an answer is waited for that must not come.
const short = 300 * time.Millisecond
