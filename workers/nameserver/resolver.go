package nameserver

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"strings"
)

const hostFile = "/etc/resolv.conf"

// HostServers reads the addresses of the host's name servers; its own, as resolvers have it, if it
// lists none.
func HostServers() []netip.Addr {
	b, _ := os.ReadFile(hostFile)
	all := servers(b)
	if len(all) == 0 {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	}
	return all
}

// most is how many name servers resolvers ask.
const most = 3

func servers(conf []byte) (all []netip.Addr) {
	for line := range bytes.Lines(conf) {
		f := strings.Fields(string(line))
		if len(f) < 2 || f[0] != "nameserver" || len(all) == most {
			continue
		}
		if a, err := netip.ParseAddr(f[1]); err == nil {
			all = append(all, a)
		}
	}
	return all
}

// Resolver makes a resolv.conf with one name server, and with the domains and options of the
// host's.
func Resolver(at netip.Addr) []byte {
	b, _ := os.ReadFile(hostFile)
	return resolver(b, at)
}

func resolver(conf []byte, at netip.Addr) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "nameserver %s\n", at)
	for line := range bytes.Lines(conf) {
		f := strings.Fields(string(line))
		if len(f) > 1 && (f[0] == "search" || f[0] == "domain" || f[0] == "options") {
			fmt.Fprintln(&out, strings.Join(f, " "))
		}
	}
	return out.Bytes()
}
