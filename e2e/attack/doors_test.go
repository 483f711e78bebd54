package attack

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// advertised gives the address for direct connections as tables of /proc/net have it.
func (g *target) advertised() string {
	at, err := netip.ParseAddrPort(g.facts.Services[Advertised])
	g.must(err)
	b := at.Addr().As4()
	return fmt.Sprintf("%02X%02X%02X%02X:%04X", b[3], b[2], b[1], b[0], at.Port())
}

// doors are what Diapause listens at on the host: two ports of NATS, one of HTTP, the one that it was told to advertise,
// and sockets in its data directory.
func (g *target) doors(t *testing.T) {
	inodes := map[string]bool{}
	for _, pid := range g.facts.PIDs[1:] {
		fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		g.must(err)
		own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
		here, hereErr := os.Readlink("/proc/self/ns/net")
		if err != nil || hereErr != nil || own != here {
			continue // a session's, whose sockets are in its own network
		}
		for _, fd := range fds {
			to, err := os.Readlink(fd)
			if inode, ok := strings.CutPrefix(to, "socket:["); ok && err == nil {
				inodes[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	listening, advertised := 0, g.advertised()
	for _, family := range []string{"tcp", "tcp6", "udp", "udp6", "raw", "raw6", "packet"} {
		for _, fields := range table(t, family) {
			// Of TCP those that listen, in state 0A; of others all.
			if !slices.ContainsFunc(fields, func(f string) bool { return inodes[f] }) || strings.HasPrefix(family, "tcp") && fields[3] != "0A" {
				continue
			}
			listening++
			if !strings.HasPrefix(family, "tcp") || !strings.HasPrefix(fields[1], "0100007F:") && fields[1] != advertised {
				t.Errorf("there is another socket, %s: %v", family, fields)
			}
		}
	}
	if listening != 4 {
		t.Errorf("%d sockets listen, want two of NATS, that of HTTP and the advertised one", listening)
	}
	paths := 0
	for _, fields := range table(t, "unix") {
		if len(fields) < 8 || !inodes[fields[6]] {
			continue
		}
		if paths++; !strings.HasPrefix(fields[7], g.Data) && !strings.HasPrefix(fields[7], "/proc/self/fd/") {
			t.Errorf("there is another unix socket: %v", fields)
		}
	}
	if paths == 0 {
		t.Error("the sockets of shims aren't found")
	}
}

// table reads a table of /proc/net, without its first line.
func table(t *testing.T, name string) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile("/proc/net/" + name)
	if err != nil {
		t.Fatal(err)
	}
	for n, line := range slices.Collect(strings.Lines(string(text))) {
		if n > 0 {
			rows = append(rows, strings.Fields(line))
		}
	}
	return rows
}
