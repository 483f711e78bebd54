package tree

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// ListenerAt finds the process that listens at a TCP address, or at all addresses on its port, in
// this process's network namespace. It reports false if there is none that can be seen.
func ListenerAt(at netip.AddrPort) (pid int, name string, ok bool) {
	sockets, err := readSockets(os.Getpid())
	if err != nil {
		return 0, "", false
	}
	inodes := map[uint64]bool{}
	for _, s := range sockets {
		same := s.local.Addr() == at.Addr() || s.local.Addr().IsUnspecified() || at.Addr().IsUnspecified()
		if s.state == stateListen && s.local.Port() == at.Port() && same {
			inodes[s.inode] = true
		}
	}
	if len(inodes) == 0 {
		return 0, "", false
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, "", false
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		fds, err := FDs(pid)
		if err != nil {
			continue // it ended, or is none of ours to look into
		}
		for _, fd := range fds {
			if inode, isSocket := fd.Inode("socket"); isSocket && inodes[inode] {
				comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
				return pid, strings.TrimSpace(string(comm)), true
			}
		}
	}
	return 0, "", false
}
