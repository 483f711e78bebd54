package attack

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Refusals that many attempts end with.
var (
	eperm  = []string{"EPERM"}
	erofs  = []string{"EROFS"}
	enoent = []string{"ENOENT"}
	esrch  = []string{"ESRCH"}
)

const userKeyring = 0xfffffffc // KEY_SPEC_USER_KEYRING, in 32 bits

// Session are the attempts from inside a session.
func Session() []Attempt {
	return slices.Concat(namespaces(), machine(), calls(), foreign(), kernelFiles(), files(), processes(), reach())
}

// spare puts a call that changes what this thread has on a thread that ends with it.
func spare(try func(Facts) error) func(Facts) error {
	return func(f Facts) error {
		runtime.LockOSThread()
		return try(f)
	}
}

func mount(source, target, kind string, flags uintptr, data string) func(Facts) error {
	return func(Facts) error { return unix.Mount(source, target, kind, flags, data) }
}

func namespaces() []Attempt {
	unshare := func(flag uintptr) func(Facts) error { return spare(call(unix.SYS_UNSHARE, flag)) }
	return []Attempt{
		{What: "mount a file system in memory", Want: eperm, Try: mount("none", "/mnt", "tmpfs", 0, "")},
		{What: "mount another /proc", Want: eperm, Try: mount("proc", "/mnt", "proc", 0, "")},
		{What: "bind / elsewhere", Want: eperm, Try: mount("/", "/mnt", "", unix.MS_BIND, "")},
		{What: "mount cgroups of version 1", Want: eperm, Try: mount("none", "/mnt", "cgroup", 0, "memory")},
		{What: "mount cgroups of version 2", Want: eperm, Try: mount("none", "/mnt", "cgroup2", 0, "")},
		{What: "mount /sys writable", Want: eperm, Try: mount("", "/sys", "", unix.MS_REMOUNT|unix.MS_BIND, "")},
		{What: "mount an overlay", Want: eperm, Try: mount("none", "/mnt", "overlay", 0, "lowerdir=/,upperdir=/tmp,workdir=/tmp")},
		{What: "unmount what protects /proc/sys", Want: eperm, Try: func(Facts) error { return unix.Unmount("/proc/sys", unix.MNT_DETACH) }},
		{What: "unmount what hides the data directory", Want: eperm, Try: func(f Facts) error { return unix.Unmount(f.Data, unix.MNT_DETACH) }},
		{What: "fsopen", Want: eperm, Try: func(Facts) error { return second(unix.Fsopen("tmpfs", 0)) }},
		{What: "open_tree, to clone the mounts", Want: eperm, Control: true, Try: func(Facts) error {
			return second(unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC))
		}},
		{What: "mount_setattr", Want: eperm, Try: func(Facts) error {
			return unix.MountSetattr(unix.AT_FDCWD, "/sys", 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
		}},
		{What: "pivot_root", Want: eperm, Try: func(Facts) error { return unix.PivotRoot("/", "/mnt") }},
		{What: "unshare -m", Want: eperm, Control: true, Try: unshare(unix.CLONE_NEWNS)},
		{What: "unshare -C", Want: eperm, Control: true, Try: unshare(unix.CLONE_NEWCGROUP)},
		{What: "unshare -U", Want: eperm, Try: unshare(unix.CLONE_NEWUSER)},
		{What: "unshare -n", Want: eperm, Control: true, Try: unshare(unix.CLONE_NEWNET)},
		{What: "unshare -p", Want: eperm, Control: true, Try: unshare(unix.CLONE_NEWPID)},
		{What: "unshare -T", Want: eperm, Control: true, Try: unshare(unix.CLONE_NEWTIME)},
		{What: "clone with a new user namespace", Want: eperm, Control: true, Try: cloned(unix.CLONE_NEWUSER)},
		{What: "clone with all new namespaces but users", Want: eperm, Control: true, Try: cloned(unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWUTS)},
		{What: "clone3, whose flags no filter sees", Want: []string{"ENOSYS"}, Try: call(unix.SYS_CLONE3)},
		{What: "setns", Want: eperm, Control: true, Try: spare(func(Facts) error {
			fd, err := unix.Open("/proc/self/ns/ipc", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			return unix.Setns(fd, unix.CLONE_NEWIPC)
		})},
	}
}

// second drops what a call gives besides its error.
func second(_ int, err error) error { return err }

// cloned starts a process with new namespaces.
func cloned(flags uintptr) func(Facts) error {
	return func(Facts) error {
		c := exec.Command("/bin/true")
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
		return c.Run()
	}
}

func machine() []Attempt {
	now := func() unix.Timeval { return unix.NsecToTimeval(time.Now().UnixNano()) }
	return []Attempt{
		{What: "load a module", Want: eperm, Try: call(unix.SYS_INIT_MODULE)},
		{What: "load a module from a file", Want: eperm, Try: call(unix.SYS_FINIT_MODULE)},
		{What: "remove a module", Want: eperm, Try: call(unix.SYS_DELETE_MODULE)},
		{What: "kexec_load", Want: eperm, Try: call(unix.SYS_KEXEC_LOAD)},
		{What: "kexec_file_load", Want: eperm, Try: call(unix.SYS_KEXEC_FILE_LOAD)},
		{What: "reboot", Want: eperm, Try: call(unix.SYS_REBOOT, 0xfee1dead, 672274793, 0)},
		{What: "settimeofday", Want: eperm, Try: func(Facts) error { t := now(); return unix.Settimeofday(&t) }},
		{What: "clock_settime", Want: eperm, Try: func(Facts) error {
			t := unix.NsecToTimespec(time.Now().UnixNano())
			return unix.ClockSettime(unix.CLOCK_REALTIME, &t)
		}},
		{What: "adjtimex", Want: eperm, Try: func(Facts) error { return second(unix.Adjtimex(&unix.Timex{Modes: unix.ADJ_TICK, Tick: 10000})) }},
		{What: "sethostname", Want: eperm, Try: func(Facts) error { return unix.Sethostname([]byte("taken")) }},
		{What: "swapon", Want: eperm, Try: call(unix.SYS_SWAPON)},
		{What: "acct", Want: eperm, Try: call(unix.SYS_ACCT)},
		{What: "quotactl", Want: eperm, Try: call(unix.SYS_QUOTACTL)},
		{What: "read the kernel's log", Want: eperm, Control: true, Try: func(Facts) error { return second(unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, make([]byte, 4096))) }},
		{What: "iopl", Want: eperm, Try: call(unix.SYS_IOPL, 3)},
		{What: "ioperm", Want: eperm, Try: call(unix.SYS_IOPERM, 0x80, 1, 1)},
		{What: "real-time priority", Want: eperm, Control: true, Try: spare(func(Facts) error {
			return unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
		})},
		{What: "a better priority", Want: []string{"EACCES"}, Control: true, Try: func(Facts) error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -20) }},
		{What: "all capabilities again, by capset", Want: eperm, Try: func(Facts) error {
			all := [2]unix.CapUserData{{Effective: ^uint32(0), Permitted: ^uint32(0)}, {Effective: 0x1ff, Permitted: 0x1ff}}
			return unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &all[0])
		}},
		{What: "CAP_SYS_ADMIN by a file's capabilities", Want: eperm, Control: true, Try: fileCapabilities},
	}
}

// fileCapabilities gives a copy of a program more than a session has, and starts it.
func fileCapabilities(f Facts) error {
	program, err := os.ReadFile("/bin/true")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(f.Bait, "caps")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "true")
	if err := os.WriteFile(path, program, 0o755); err != nil {
		return err
	}
	// struct vfs_cap_data of version 2, effective, with CAP_SYS_ADMIN (21).
	caps := []byte{1, 0, 0, 2, 0, 0, 1 << 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	if err := unix.Setxattr(path, "security.capability", caps, 0); err != nil {
		return fmt.Errorf("set the capabilities: %s", err) // which a session may
	}
	return exec.Command(path).Run()
}

func calls() []Attempt {
	return []Attempt{
		{What: "keyctl: the ring of root's keys", Want: eperm, Control: true, Try: call(unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, ^uintptr(3), 0)},
		{What: "add_key", Want: eperm, Control: true, Try: func(Facts) error {
			return second(unix.AddKey("user", "attack", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING))
		}},
		{What: "request_key", Want: eperm, Try: func(Facts) error { return second(unix.RequestKey("user", "attack", "", 0)) }},
		{What: "bpf", Want: eperm, Control: true, Try: func(Facts) error {
			array := [16]uint32{2, 4, 4, 1} // the type of map, sizes of key and value, entries
			_, _, errno := unix.Syscall(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&array)), unsafe.Sizeof(array))
			return asError(errno)
		}},
		{What: "perf_event_open", Want: eperm, Control: true, Try: func(Facts) error {
			a := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Config: unix.PERF_COUNT_SW_CPU_CLOCK}
			return second(unix.PerfEventOpen(&a, 0, -1, -1, 0))
		}},
		{What: "userfaultfd", Want: eperm, Control: true, Try: call(unix.SYS_USERFAULTFD, unix.O_CLOEXEC)},
		{What: "io_uring_setup", Want: eperm, Control: true, Try: func(Facts) error {
			var p [120]byte
			_, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&p)), 0)
			return asError(errno)
		}},
		{What: "open_by_handle_at", Want: eperm, Control: true, Try: func(f Facts) error {
			handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, f.Bait, 0)
			if err != nil { // overlays have none
				handle = unix.NewFileHandle(1, make([]byte, 8))
			}
			dir, err := unix.Open(f.Bait, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			return second(unix.OpenByHandleAt(dir, handle, unix.O_RDONLY))
		}},
		{What: "fanotify_init", Want: eperm, Control: true, Try: func(Facts) error { return second(unix.FanotifyInit(unix.FAN_CLASS_NOTIF, unix.O_RDONLY)) }},
		{What: "freeze the file system", Want: []string{"EPERM", "ENOTSUP"}, Try: rootIoctl(0xc0045877)},
		{What: "trim the file system", Want: []string{"EPERM", "ENOTTY"}, Try: rootIoctl(0xc0185879)},
	}
}

func rootIoctl(request uintptr) func(Facts) error {
	return func(Facts) error {
		fd, err := unix.Open("/", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		var arg [3]uint64
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(&arg)))
		return asError(errno)
	}
}
