package doctor

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// need is a capability and what goes wrong without it.
type need struct {
	name    string
	bit     uint
	without string
}

var needed = []need{
	{"CAP_SYS_ADMIN", unix.CAP_SYS_ADMIN, "no namespaces, no mounts, no restore under the same pids"},
	{"CAP_SYS_PTRACE", unix.CAP_SYS_PTRACE, "processes can't be dumped"},
	{"CAP_SYS_CHROOT", unix.CAP_SYS_CHROOT, "criu can't enter a session's root"},
	{"CAP_NET_ADMIN", unix.CAP_NET_ADMIN, "sockets and session networks can't be restored"},
	{"CAP_NET_BIND_SERVICE", unix.CAP_NET_BIND_SERVICE, "a session's private network can't resolve names"},
	{"CAP_SYS_TIME", unix.CAP_SYS_TIME, "clocks of sessions can't go on where they were"},
	{"CAP_DAC_OVERRIDE", unix.CAP_DAC_OVERRIDE, "files of sessions can't be written"},
	{"CAP_DAC_READ_SEARCH", unix.CAP_DAC_READ_SEARCH, "files of sessions can't be read"},
	{"CAP_CHOWN", unix.CAP_CHOWN, "files can't be given back to their owners"},
	{"CAP_FOWNER", unix.CAP_FOWNER, "modes and times of files can't be restored"},
	{"CAP_FSETID", unix.CAP_FSETID, "setuid bits of files can't be restored"},
	{"CAP_SETUID", unix.CAP_SETUID, "sessions can't run as another user"},
	{"CAP_SETGID", unix.CAP_SETGID, "sessions can't run with another group"},
	{"CAP_SETPCAP", unix.CAP_SETPCAP, "sessions can't be started without the worker's own capabilities"},
	{"CAP_KILL", unix.CAP_KILL, "sessions of other users can't be ended"},
	{"CAP_IPC_LOCK", unix.CAP_IPC_LOCK, "locked memory can't be restored"},
}

// NameCapabilities is the check that a capture and a restore need.
const NameCapabilities = "capabilities"

// Capabilities checks for each capability without which sessions can't be
// captured and restored.
func Capabilities() Check {
	return Check{
		Name: NameCapabilities, What: "the process has each capability that is needed", Needs: []string{NamePrivileges},
		Run: func(context.Context) Result {
			has, err := effective()
			if err != nil {
				return failed(err, "look at CapEff in /proc/self/status")
			}
			return capabilities(has)
		},
	}
}

func capabilities(has uint64) Result {
	var missing, names []string
	for _, n := range needed {
		names = append(names, strings.TrimPrefix(n.name, "CAP_"))
		if has>>n.bit&1 == 0 {
			missing = append(missing, fmt.Sprintf("%s is missing: %s", n.name, n.without))
		}
	}
	if len(missing) > 0 {
		return Result{
			Status: Fail, Detail: strings.Join(missing, "\n"),
			Fix: "run it as root outside of containers, or add these to the container's capabilities (docker: --cap-add)",
		}
	}
	return okf("%s", strings.Join(names, " "))
}

// OtherUsers checks for what it takes to capture sessions that don't run as root.
func OtherUsers() Check {
	return Check{
		Name: "other-users", What: "sessions of other users than root can be captured", Needs: []string{NamePrivileges},
		Run: func(context.Context) Result {
			has, err := effective()
			if err != nil {
				return failed(err, "look at CapEff in /proc/self/status")
			}
			return otherUsers(has)
		},
	}
}

func otherUsers(has uint64) Result {
	if has>>unix.CAP_SYS_RESOURCE&1 == 1 {
		return okf("CAP_SYS_RESOURCE")
	}
	return Result{
		Status: Warn, Detail: "CAP_SYS_RESOURCE is missing: sessions of another user than root (run --user) can't be captured, those of root can",
		Fix: "give it to the machine or the container (docker: --cap-add SYS_RESOURCE), or run sessions as root",
	}
}

// effective reads this process's effective capabilities.
func effective() (uint64, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return 0, fmt.Errorf("read this process's capabilities: %w", err)
	}
	return uint64(data[1].Effective)<<32 | uint64(data[0].Effective), nil
}
