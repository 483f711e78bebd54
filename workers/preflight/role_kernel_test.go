package preflight_test

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

type uringParams [120]byte

func uringSetup() (int, error) {
	var p uringParams
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&p)), 0)
	return int(fd), nonzero(errno)
}

func ioUring(string) error { return open(uringSetup()) }

func ioUringMapping(string) error {
	fd, err := uringSetup()
	if err != nil {
		return err
	}
	if _, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return err
	}
	return unix.Close(fd)
}

func inotify(path string) error {
	fd, err := unix.InotifyInit()
	if err != nil {
		return err
	}
	return open(unix.InotifyAddWatch(fd, path, unix.IN_MODIFY))
}

// inotifyGhost watches a file that has no name any more.
func inotifyGhost(string) error {
	f, err := os.Create("/tmp/watched")
	if err != nil {
		return err
	}
	keep = append(keep, f)
	if err := os.Remove(f.Name()); err != nil {
		return err
	}
	return inotify(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
}

// fanotifyMark watches "mount:PATH" or "inode:PATH".
func fanotifyMark(arg string) error {
	kind, path, _ := strings.Cut(arg, ":")
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF, unix.O_RDONLY)
	if err != nil {
		return err
	}
	flags := map[string]uint{"inode": 0, "mount": unix.FAN_MARK_MOUNT, "filesystem": unix.FAN_MARK_FILESYSTEM}[kind]
	return unix.FanotifyMark(fd, unix.FAN_MARK_ADD|flags, unix.FAN_OPEN, unix.AT_FDCWD, path)
}

// ghost has a file of that many bytes open whose name is gone.
func ghost(size string) error {
	n, err := strconv.Atoi(size)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp("/tmp", "ghost")
	if err != nil {
		return err
	}
	keep = append(keep, f)
	if _, err := io.CopyN(f, zeros{}, int64(n)); err != nil {
		return err
	}
	return os.Remove(f.Name())
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// block opens the block device "major:minor".
func block(device string) error { return open(openBlock(device)) }

func openBlock(device string) (int, error) {
	var major, minor uint32
	if _, err := fmt.Sscanf(device, "%d:%d", &major, &minor); err != nil {
		return 0, err
	}
	if err := unix.Mknod("/dev/test-disk", unix.S_IFBLK|0o600, int(unix.Mkdev(major, minor))); err != nil {
		return 0, err
	}
	return unix.Open("/dev/test-disk", unix.O_RDONLY, 0)
}

func blockMapping(device string) error {
	fd, err := openBlock(device)
	if err != nil {
		return err
	}
	if _, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return err
	}
	return unix.Close(fd)
}

func lease(string) error {
	f, err := os.Create("/tmp/leased")
	if err != nil {
		return err
	}
	keep = append(keep, f)
	signal.Ignore(unix.SIGIO)
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
	return err
}

func ofdLock(string) error {
	f, err := os.Create("/tmp/ofd")
	if err != nil {
		return err
	}
	keep = append(keep, f)
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Len: 10})
}

func perf(string) error {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK}
	attr.Size = uint32(unsafe.Sizeof(attr))
	return open(unix.PerfEventOpen(&attr, 0, -1, -1, 0))
}

// bpf makes a map of the kind array, of one entry.
func bpf(string) error {
	attr := struct{ kind, key, value, entries uint32 }{2, 4, 4, 1}
	return syscallFD(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
}

func secretMapping(string) error {
	fd, _, errno := unix.Syscall(unix.SYS_MEMFD_SECRET, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	if err := unix.Ftruncate(int(fd), 4096); err != nil {
		return err
	}
	b, err := unix.Mmap(int(fd), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	b[0] = 1
	return unix.Close(int(fd))
}

func sysV(string) error {
	id, err := unix.SysvShmGet(0, 4096, 0o600|unix.IPC_CREAT)
	if err != nil {
		return err
	}
	_, err = unix.SysvShmAttach(id, 0, 0)
	return err
}

func aio(string) error {
	var ctx uintptr
	_, _, errno := unix.Syscall(unix.SYS_IO_SETUP, 8, uintptr(unsafe.Pointer(&ctx)), 0)
	return nonzero(errno)
}

func landlock(string) error {
	attr := struct{ fs uint64 }{1}
	return syscallFD(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
}

func mq(string) error {
	name, _ := unix.BytePtrFromString("queue")
	_, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), unix.O_CREAT|unix.O_RDWR, 0o600, 0, 0, 0)
	return nonzero(errno)
}
