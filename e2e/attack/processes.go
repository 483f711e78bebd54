package attack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ignored is the end of a signal that does nothing.
const ignored = Refusal("ignored")

func processes() []Attempt {
	return []Attempt{
		{What: "read arguments of others", Want: []string{string(nowhere)}, Control: true, Try: ofOthers("cmdline")},
		{What: "read environments of others", Want: []string{string(nowhere)}, Control: true, Try: ofOthers("environ")},
		{What: "signal processes of the host", Want: esrch, Control: true, Try: each(func(pid int) error { return unix.Kill(pid, 0) })},
		{What: "kill processes of the host", Want: esrch, Try: each(func(pid int) error { return unix.Kill(pid, unix.SIGKILL) })},
		{What: "pidfd_open of processes of the host", Want: esrch, Control: true, Try: each(func(pid int) error { return second(unix.PidfdOpen(pid, 0)) })},
		{What: "trace processes of the host", Want: esrch, Try: spare(each(unix.PtraceAttach))},
		{What: "read memory of processes of the host", Want: esrch, Try: each(func(pid int) error {
			return second(unix.ProcessVMReadv(pid, vector(), remote(), 0))
		})},
		{What: "open processes of the host in /proc", Want: enoent, Control: true, Try: each(func(pid int) error { return content(fmt.Sprintf("/proc/%d/status", pid)) })},
		{What: "set limits of processes of the host", Want: esrch, Try: each(func(pid int) error {
			return unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{}, nil)
		})},
		// Other commands of the session must be started after that: the test tries.
		{What: "ptrace: attach to init", Want: eperm, Try: spare(func(Facts) error { return unix.PtraceAttach(1) })},
		{What: "ptrace: seize init", Want: eperm, Try: spare(func(Facts) error { return unix.PtraceSeize(1) })},
		{What: "take a descriptor of init", Want: eperm, Try: func(Facts) error {
			fd, err := unix.PidfdOpen(1, 0)
			if err != nil {
				return err
			}
			return second(unix.PidfdGetfd(fd, 0, 0))
		}},
		{What: "kill init", Want: []string{string(ignored)}, Try: signalInit(unix.SIGKILL)},
		{What: "stop init", Want: []string{string(ignored)}, Try: signalInit(unix.SIGSTOP)},
		{What: "set the limits of init", Want: eperm, Try: func(Facts) error {
			return unix.Prlimit(1, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1 << 30, Max: 1 << 30}, nil)
		}},
		{What: "a namespace of an older parent", Want: eperm, Try: func(Facts) error {
			fd, err := unix.Open("/proc/self/ns/pid", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			return second(unix.IoctlRetInt(fd, unix.NS_GET_PARENT))
		}},
	}
}

// ofOthers looks for the mark in a file of every process but this and those that started it.
func ofOthers(file string) func(Facts) error {
	return func(f Facts) error {
		ours := map[string]bool{fmt.Sprint(os.Getpid()): true, fmt.Sprint(os.Getppid()): true}
		all, err := filepath.Glob("/proc/[0-9]*/" + file)
		if err != nil {
			return err
		}
		for _, path := range all {
			if b, err := os.ReadFile(path); err == nil && strings.Contains(string(b), f.Mark) &&
				!ours[strings.Split(path, "/")[2]] && !strings.Contains(string(b), FactsVariable) {
				return nil
			}
		}
		return nowhere
	}
}

// each tries all processes of the host that it knows, until one attempt succeeds. Numbers that
// processes of the session have are left out.
func each(try func(pid int) error) func(Facts) error {
	return func(f Facts) error {
		err := errors.New("no process of the host is known")
		for _, pid := range f.PIDs {
			if _, statErr := os.Stat(fmt.Sprintf("/proc/%d", pid)); statErr == nil && f.Network != "" {
				continue
			}
			if err = try(pid); err == nil {
				return nil
			}
		}
		return err
	}
}

// vector and remote are some memory of ours and of another process.
func vector() []unix.Iovec {
	b := make([]byte, 8)
	return []unix.Iovec{{Base: unsafe.SliceData(b), Len: uint64(len(b))}}
}

func remote() []unix.RemoteIovec { return []unix.RemoteIovec{{Base: 0x400000, Len: 8}} }

func signalInit(s syscall.Signal) func(Facts) error {
	return func(Facts) error {
		if err := unix.Kill(1, s); err != nil {
			return err
		}
		stat, err := os.ReadFile("/proc/1/stat")
		if err != nil {
			return err
		}
		if _, state, ok := strings.Cut(string(stat), ") "); ok && state[0] == 'S' {
			return ignored
		}
		return nil
	}
}
