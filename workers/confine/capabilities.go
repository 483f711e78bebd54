package confine

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// common are the capabilities of root in every session: Docker's, without MKNOD (a device node
// would be a way to the host's disks) and NET_RAW. Without SYS_ADMIN nothing that is mounted over
// can be uncovered. Debuggers work without SYS_PTRACE on processes that have no more privileges than
// they; with it, root inside could trace a process of ours on its way in.
const common uint64 = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FSETID |
	1<<unix.CAP_FOWNER | 1<<unix.CAP_SETGID |
	1<<unix.CAP_SETUID | 1<<unix.CAP_SETFCAP | 1<<unix.CAP_SETPCAP |
	1<<unix.CAP_NET_BIND_SERVICE | 1<<unix.CAP_SYS_CHROOT | 1<<unix.CAP_KILL |
	1<<unix.CAP_AUDIT_WRITE

// capabilityNames are the names of all capabilities, by their numbers.
var capabilityNames = []string{
	"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
	"LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
	"SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
	"SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
	"MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
	"CHECKPOINT_RESTORE",
}

// capability reads a name such as NET_ADMIN or CAP_NET_ADMIN, in either case, or ALL.
func capability(name string) (mask uint64, err error) {
	want := strings.TrimPrefix(strings.ToUpper(name), "CAP_")
	if want == "ALL" {
		return 1<<len(capabilityNames) - 1, nil
	}
	for i, n := range capabilityNames {
		if n == want {
			return 1 << i, nil
		}
	}
	return 0, fmt.Errorf("there is no capability %q", name)
}

// names lists the capabilities of a mask as profiles have them.
func names(mask uint64) (all []string) {
	for i, n := range capabilityNames {
		if mask&(1<<i) != 0 {
			all = append(all, "CAP_"+n)
		}
	}
	return all
}
