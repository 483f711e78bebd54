package network

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func viewOf(t *testing.T, n *Network) View {
	t.Helper()
	v, err := n.View()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// change does what a session with CAP_NET_ADMIN can do to its network.
func change(t *testing.T, n *Network, do func(lo netlink.Link) error) {
	t.Helper()
	err := n.Inside(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return do(lo)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestChangesAreSeen(t *testing.T) {
	for name, o := range map[string]Options{"private": {}, "isolated": {Isolated: true}} {
		t.Run(name, func(t *testing.T) {
			n := made(t, o)
			first := viewOf(t, n)
			if changes := viewOf(t, n).Since(first); len(changes) > 0 {
				t.Fatalf("nothing was changed, and these are different: %q", changes)
			}
			for want, do := range map[string]func(netlink.Link) error{
				"interface added0 (down, mtu 1400), interface added1 (down, mtu 1400)": func(netlink.Link) error {
					attrs := netlink.NewLinkAttrs()
					attrs.Name, attrs.MTU = "added0", 1400
					return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "added1", PeerMTU: 1400})
				},
				"address 192.0.2.7/32 of lo": func(lo netlink.Link) error {
					a, err := netlink.ParseAddr("192.0.2.7/32")
					if err != nil {
						return err
					}
					return netlink.AddrAdd(lo, a)
				},
				"route to 192.0.2.128/25 on lo": func(lo netlink.Link) error {
					to, err := netlink.ParseIPNet("192.0.2.128/25")
					if err != nil {
						return err
					}
					return netlink.RouteAdd(&netlink.Route{LinkIndex: lo.Attrs().Index, Dst: to, Scope: netlink.SCOPE_LINK})
				},
				"rule 77 to table 254": func(netlink.Link) error {
					r := netlink.NewRule()
					r.Priority, r.Table = 77, unix.RT_TABLE_MAIN
					return netlink.RuleAdd(r)
				},
				"table mine of nftables with 0 rules": func(netlink.Link) error {
					c, err := nftables.New()
					if err != nil {
						return err
					}
					c.AddTable(&nftables.Table{Name: "mine", Family: nftables.TableFamilyIPv4})
					return c.Flush()
				},
				"no address 127.0.0.1/8 of lo": func(lo netlink.Link) error {
					a, err := netlink.ParseAddr("127.0.0.1/8")
					if err != nil {
						return err
					}
					return netlink.AddrDel(lo, a)
				},
			} {
				before := viewOf(t, n)
				change(t, n, do)
				if got := strings.Join(viewOf(t, n).Since(before), ", "); got != want {
					t.Errorf("got %s, want only %s", got, want)
				}
			}
		})
	}
}

// What a restored network is compared with is taken after the lock is gone: it is what a new one is.
func TestRestoredNetworkIsNoChange(t *testing.T) {
	first := viewOf(t, made(t, Options{}))
	n := made(t, Options{Locked: true})
	if err := n.Unlock(); err != nil {
		t.Fatal(err)
	}
	if changes := viewOf(t, n).Since(first); len(changes) > 0 {
		t.Errorf("a network that was locked differs from one that was not: %q", changes)
	}
}

func TestLoopbackView(t *testing.T) {
	v, err := LoopbackView()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(v, func(s string) bool { return strings.HasPrefix(s, "interface lo (up") }) {
		t.Errorf("no loopback interface that is up: %q", v)
	}
	if slices.ContainsFunc(v, func(s string) bool { return strings.Contains(s, "eth0") }) {
		t.Errorf("a namespace with a loopback alone has eth0: %q", v)
	}
	here, err := os.Open("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	if own, err := ViewOf(here); err != nil || len(own.Since(v)) == 0 {
		t.Errorf("this host has no more than a loopback: %q, %v", own, err)
	}
}
