package preflight_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// namespace starts a child in a namespace of its own.
func namespace(kind string) error {
	flags := map[string]uintptr{"net": unix.CLONE_NEWNET, "mnt": unix.CLONE_NEWNS, "pid": unix.CLONE_NEWPID, "ipc": unix.CLONE_NEWIPC,
		"uts": unix.CLONE_NEWUTS, "user": unix.CLONE_NEWUSER, "cgroup": unix.CLONE_NEWCGROUP}
	cmd := exec.Command("/bin/sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags[kind]}
	return cmd.Start()
}

// namespaceOfFutureChildren is in no namespace of its own; its children will be.
func namespaceOfFutureChildren(kind string) error {
	flags := map[string]int{"pid": unix.CLONE_NEWPID, "time": unix.CLONE_NEWTIME}
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := unix.Unshare(flags[kind])
		if err == nil && kind == "time" {
			err = exec.Command("/bin/sleep", "600").Start()
		}
		done <- err
		select {}
	}()
	return <-done
}

func traced(string) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the tracer is a thread
		cmd := exec.Command("/bin/sleep", "600")
		cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
		done <- cmd.Start()
		select {}
	}()
	return <-done
}

func pidfd(string) error {
	cmd := exec.Command("/bin/sleep", "600")
	if err := cmd.Start(); err != nil {
		return err
	}
	return open(unix.PidfdOpen(cmd.Process.Pid, 0))
}

// zombieWithThreads starts a child whose first thread ends before the others.
func zombieWithThreads(string) error {
	cmd := again("thread leaver")
	if err := cmd.Start(); err != nil {
		return err
	}
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		if err != nil {
			return err
		}
		if strings.Contains(string(stat), ") Z ") {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
}

// again is this program in another role.
func again(role string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "PREFLIGHT_ROLE="+role)
	return cmd
}

func zombie(string) error {
	p, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
	keep = append(keep, p)
	return err
}

// seccomp puts a filter in place that allows everything.
func seccomp(string) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	filter := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0x7fff0000}}
	prog := unix.SockFprog{Len: 1, Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, 1, 1, uintptr(unsafe.Pointer(&prog)))
	return nonzero(errno)
}

func stopped(string) error {
	cmd := exec.Command("/bin/sleep", "600")
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Signal(unix.SIGSTOP)
}

// childChroot has a child with another root: one where everything is that the
// child needs, for /bin and /lib are links into it.
func childChroot(string) error {
	cmd := exec.Command("/bin/sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: "/usr"}
	return cmd.Start()
}

// leaveThread ends the first thread of this process while others go on. It must
// be called on that thread.
func leaveThread() {
	go time.Sleep(time.Hour)
	go func() {
		runtime.LockOSThread()
		_ = unix.Nanosleep(&unix.Timespec{Sec: 3600}, nil)
	}()
	time.Sleep(50 * time.Millisecond)
	_, _, _ = unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
}
