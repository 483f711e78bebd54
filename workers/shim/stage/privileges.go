package stage

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Kept are the capabilities of root in a session: what containers usually have,
// without MKNOD (a device node would be a way to the host's disks). Without
// SYS_ADMIN nothing that is mounted over can be uncovered. Debuggers work without
// SYS_PTRACE on processes that have no more privileges than they; with it, root
// inside could trace a process of ours on its way in.
const Kept uint64 = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FSETID |
	1<<unix.CAP_FOWNER | 1<<unix.CAP_NET_RAW | 1<<unix.CAP_SETGID |
	1<<unix.CAP_SETUID | 1<<unix.CAP_SETFCAP | 1<<unix.CAP_SETPCAP |
	1<<unix.CAP_NET_BIND_SERVICE | 1<<unix.CAP_SYS_CHROOT | 1<<unix.CAP_KILL |
	1<<unix.CAP_AUDIT_WRITE

// maxCapability is above the last capability that any kernel knows.
const maxCapability = 63

// dropOnThread takes from the calling thread, and so from what it starts, all
// capabilities that a session doesn't have. The thread must be locked.
func dropOnThread() error {
	for c := range uintptr(maxCapability) {
		if Kept&(1<<c) != 0 {
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
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&header, &have[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	for i := range have {
		mask := uint32(uint64(Kept) >> (32 * i) & 0xffffffff)
		have[i].Permitted &= mask
		have[i].Effective &= mask
		have[i].Inheritable = 0
	}
	if err := unix.Capset(&header, &have[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}
