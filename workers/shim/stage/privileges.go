package stage

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/confine/limits"
)

// maxCapability is above the last capability that any kernel knows.
const maxCapability = 63

// untilExec are capabilities that a stage needs to become a command's user. What it executes has
// none that isn't in the bounding set.
const untilExec uint64 = 1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID

// Entering gives the capabilities of a stage on its way into a session: those of the session, and
// what it needs to drop them.
func Entering(capabilities uint64) uint64 { return capabilities | untilExec | 1<<unix.CAP_SETPCAP }

// confineThread takes from the calling thread, and so from what it starts, all
// capabilities that a session doesn't have, and loads the session's filter of system calls.
// The thread must be locked.
func confineThread(l limits.Limits) error {
	for c := range uintptr(maxCapability) {
		if l.Capabilities&(1<<c) != 0 {
			continue
		}
		_, _, errno := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0)
		if errno == unix.EINVAL {
			break // the kernel has no more
		}
		if errno != 0 {
			return fmt.Errorf("drop capability %d: %w", c, errno)
		}
	}
	if l.NoNewPrivs {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("set no_new_privs: %w", err)
		}
	}
	// Before the capabilities go: without SYS_ADMIN it would need no_new_privs.
	if err := loadFilter(l.Filter); err != nil {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&header, &have[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	for i := range have {
		mask := uint32((l.Capabilities | untilExec) >> (32 * i) & 0xffffffff)
		have[i].Permitted &= mask
		have[i].Effective &= mask
		have[i].Inheritable = 0
	}
	if err := unix.Capset(&header, &have[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}

// loadFilter has the kernel check each system call of the calling thread, and of what it starts,
// from now on.
func loadFilter(filter []byte) error {
	if len(filter) == 0 {
		return nil
	}
	code := make([]unix.SockFilter, len(filter)/int(unsafe.Sizeof(unix.SockFilter{})))
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&code[0])), len(filter)), filter)
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("load the filter of system calls: %w", errno)
	}
	return nil
}
