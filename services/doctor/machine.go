package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The oldest kernel that has all that is used: pid file descriptors in setns, time
// namespaces, close_range, and overlay's whiteouts.
const (
	kernelMajor = 5
	kernelMinor = 10
)

// Kernel checks the kernel's version and the processor's architecture.
func Kernel() Check {
	return Check{Name: "kernel", What: "Linux is new enough, on an architecture that is tested", Run: func(context.Context) Result {
		var u unix.Utsname
		if err := unix.Uname(&u); err != nil {
			return failed(fmt.Errorf("ask for the kernel's version: %w", err), "run it on Linux")
		}
		return kernel(unix.ByteSliceToString(u.Release[:]), runtime.GOARCH)
	}}
}

func kernel(release, arch string) Result {
	major, minor, ok := versionOf(release)
	detail := fmt.Sprintf("Linux %s on %s", release, arch)
	switch {
	case !ok:
		return Result{Status: Warn, Detail: detail + ": the version can't be read", Fix: fmt.Sprintf("make sure that it is %d.%d or newer", kernelMajor, kernelMinor)}
	case major < kernelMajor || major == kernelMajor && minor < kernelMinor:
		return Result{Status: Fail, Detail: detail + " is too old", Fix: fmt.Sprintf("use Linux %d.%d or newer (6.4 or newer is better)", kernelMajor, kernelMinor)}
	case arch != "amd64":
		return Result{Status: Fail, Detail: detail + ": sessions run on amd64 only, so far", Fix: "use a machine with an amd64 processor"}
	}
	return Result{Status: OK, Detail: detail}
}

// versionOf reads the first two numbers of "6.1.0-13-amd64".
func versionOf(release string) (major, minor int, ok bool) {
	first, rest, ok := strings.Cut(release, ".")
	if !ok {
		return 0, 0, false
	}
	second := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	major, err := strconv.Atoi(first)
	if err != nil {
		return 0, 0, false
	}
	minor, err = strconv.Atoi(second)
	return major, minor, err == nil
}

// NamePrivileges is the check that everything needs which root alone may do.
const NamePrivileges = "privileges"

// Privileges checks that the process is root.
func Privileges() Check {
	return Check{Name: NamePrivileges, What: "the process is root", Run: func(context.Context) Result {
		return privileges(os.Geteuid())
	}}
}

func privileges(uid int) Result {
	if uid == 0 {
		return okf("root")
	}
	return Result{
		Status: Fail, Detail: fmt.Sprintf("this is user %d, and freezing, capturing and restoring processes takes root: what needs it is skipped", uid),
		Fix: "run it with sudo",
	}
}

// FUSE checks that file systems can be served from user space.
func FUSE() Check {
	return Check{Name: "fuse", What: "/dev/fuse can be opened", Needs: []string{NamePrivileges}, Run: func(context.Context) Result {
		f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
		if err != nil {
			return Result{
				Status: Warn, Detail: fmt.Sprintf("%v: only lazy resumes need it, and those are to come", err),
				Fix: "modprobe fuse, and in a container let it have the device /dev/fuse",
			}
		}
		f.Close()
		return okf("/dev/fuse")
	}}
}

// Userfaultfd checks that this process can serve page faults; others needn't.
func Userfaultfd() Check {
	return Check{Name: "userfaultfd", What: "page faults can be served from user space", Needs: []string{NamePrivileges}, Run: func(context.Context) Result {
		fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|unix.O_NONBLOCK, 0, 0)
		if errno != 0 {
			return Result{
				Status: Warn, Detail: fmt.Sprintf("userfaultfd: %v: only lazy resumes need it, and those are to come", errno),
				Fix: "use a kernel with CONFIG_USERFAULTFD, and in a container a seccomp profile that permits it",
			}
		}
		unix.Close(int(fd))
		return okf("this process can serve page faults")
	}}
}

// oldest is a time before which no copy of this program can run.
var oldest = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Clock checks that the clocks run and that the time is plausible.
func Clock() Check {
	return Check{Name: "clock", What: "the clocks run, and the time can be true", Run: func(context.Context) Result {
		var boot, mono unix.Timespec
		if err := errors.Join(unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot), unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono)); err != nil {
			return failed(fmt.Errorf("read the clocks: %w", err), "use a kernel that has CLOCK_BOOTTIME")
		}
		var tx unix.Timex
		state, err := unix.Adjtimex(&tx)
		return clock(time.Now(), err == nil && state != unix.TIME_ERROR)
	}}
}

func clock(now time.Time, synchronised bool) Result {
	detail := now.UTC().Format(time.RFC3339)
	switch {
	case now.Before(oldest):
		return Result{
			Status: Fail, Detail: "it is said to be " + detail + ", which is before this program was made",
			Fix: "set the clock, with chrony, systemd-timesyncd or date",
		}
	case !synchronised:
		return okf("%s, not synchronised with others (only the times in logs and images depend on it)", detail)
	}
	return okf("%s, synchronised", detail)
}
