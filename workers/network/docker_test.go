package network

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/thread"
)

// filters are the two ways in which Docker has rules on a host.
var filters = []string{"iptables-nft", "iptables-legacy"}

func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// docker does what Docker does when it is started, by its means. What is there already stays.
func docker(t *testing.T, filter string) {
	t.Helper()
	if exec.Command(filter, "-w", "-n", "-L", dockerUser).Run() != nil {
		command(t, filter, "-w", "-N", dockerUser)
		command(t, filter, "-w", "-A", dockerUser, "-j", "RETURN")
	}
	command(t, filter, "-w", "-P", "FORWARD", "DROP")
	if exec.Command(filter, "-w", "-D", "FORWARD", "-j", dockerUser).Run() == nil {
		t.Log("Docker's jump was there")
	}
	command(t, filter, "-w", "-I", "FORWARD", "-j", dockerUser)
}

func undocker(filter string) {
	for _, args := range []string{"-P FORWARD ACCEPT", "-F FORWARD", "-F " + dockerUser, "-X " + dockerUser} {
		_ = exec.Command(filter, append([]string{"-w"}, strings.Fields(args)...)...).Run() // what there is of it
	}
}

func ownersRules(t *testing.T, filter string) string {
	t.Helper()
	return command(t, filter, "-w", "-S", dockerUser)
}

// A session reaches the outside where Docker drops what the host forwards, if Docker was there before;
// and when the last session is gone, so is all that the host had for it.
func TestDockerBefore(t *testing.T) {
	peer := echo(t, inOutside, peerAddress)
	for _, filter := range filters {
		t.Run(filter, func(t *testing.T) {
			defer undocker(filter)
			docker(t, filter)
			before := ownersRules(t, filter)
			a, b := made(t, Options{}), made(t, Options{})
			for _, n := range []*Network{a, b} {
				if got, err := ask(n, "tcp", peer, long); err != nil || !strings.HasPrefix(got, hostAddress+":") {
					t.Errorf("the outside says %q, %v; there is\n%s", got, err, command(t, filter, "-w", "-S"))
				}
			}
			if block, err := FindBlock(); err != nil || block != nil {
				t.Errorf("it finds %+v, %v", block, err)
			}
			if got := ourKinds(ownersRules(t, filter)); got != 2 {
				t.Errorf("two sessions made %d kinds of rules:\n%s", got, ownersRules(t, filter))
			}
			docker(t, filter) // it is started again
			a.Close()
			if _, err := ask(b, "tcp", peer, long); err != nil {
				t.Errorf("when another session has ended: %v", err)
			}
			b.Close()
			nothingLeft(t, filter, before)
		})
	}
}

// ourKinds is how many rules of ours differ: a session and the Keeper may add them at the same time.
func ourKinds(rules string) int {
	kinds := map[string]bool{}
	for line := range strings.Lines(rules) {
		if strings.Contains(line, "--comment "+comment) {
			kinds[line] = true
		}
	}
	return len(kinds)
}

// nothingLeft waits until the host has nothing for sessions: the Keeper may be putting back what was removed just before.
func nothingLeft(t *testing.T, filter, before string) {
	t.Helper()
	for end := time.Now().Add(long); ; {
		rules, left := ownersRules(t, filter), tables(t)
		if rules == before && len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after the last session there are the tables %q and\n%swant\n%s", left, rules, before)
		}
	}
}

// tables lists those of ours on the host.
func tables(t *testing.T) (names []string) {
	t.Helper()
	c, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.ListTables()
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range all {
		if strings.HasPrefix(table.Name, tableName) || strings.HasPrefix(table.Name, prefix) {
			names = append(names, table.Name)
		}
	}
	return names
}

// Docker may be started after the session, and again after all rules of the host were removed.
func TestDockerAfter(t *testing.T) {
	peer := echo(t, inOutside, peerAddress)
	for _, filter := range filters {
		t.Run(filter, func(t *testing.T) {
			defer undocker(filter)
			n := made(t, Options{})
			reaches(t, n, peer)
			for range 2 {
				docker(t, filter)
				reaches(t, n, peer)
				undocker(filter)
				flushAll(t)
				reaches(t, n, peer)
			}
		})
	}
}

func flushAll(t *testing.T) {
	t.Helper()
	c, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	c.FlushRuleset()
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
}

// What the host's owner says of sessions stays.
func TestDockersOwnerDecides(t *testing.T) {
	peer := echo(t, inOutside, peerAddress)
	for _, filter := range filters {
		t.Run(filter, func(t *testing.T) {
			defer undocker(filter)
			docker(t, filter)
			command(t, filter, "-w", "-I", dockerUser, "-i", "diap+", "-j", "DROP")
			before := ownersRules(t, filter)
			n := made(t, Options{})
			if got, err := ask(n, "tcp", peer, short); err == nil {
				t.Errorf("the outside says %q", got)
			}
			if block, err := FindBlock(); err != nil || block == nil {
				t.Errorf("it finds %+v, %v", block, err)
			}
			n.Close()
			if got := ownersRules(t, filter); got != before {
				t.Errorf("there is\n%swant\n%s", got, before)
			}
		})
	}
}

// bridge makes one on the host with a machine on it, which the host reaches at 192.0.2.2.
func bridge(t *testing.T, name string) func(func() error) error {
	t.Helper()
	var space *os.File
	err := thread.Discard(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		space, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	b := &netlink.Bridge{LinkAttrs: attrs}
	port := netlink.NewLinkAttrs()
	port.Name = "port-" + name
	err = netlink.LinkAdd(b)
	if err == nil {
		port.MasterIndex = b.Index
		err = netlink.LinkAdd(&netlink.Veth{LinkAttrs: port, PeerName: innerName, PeerNamespace: netlink.NsFd(space.Fd())})
	}
	t.Cleanup(func() {
		_ = netlink.LinkDel(b) // the test says what failed
		space.Close()
	})
	within := func(do func() error) error {
		return thread.Discard(func() error {
			if err := unix.Setns(int(space.Fd()), unix.CLONE_NEWNET); err != nil {
				return err
			}
			return do()
		})
	}
	up := func(name, address string) error {
		l, err := netlink.LinkByName(name)
		if err == nil && address != "" {
			err = netlink.AddrAdd(l, &netlink.Addr{IPNet: asNet(netip.MustParsePrefix(address))})
		}
		if err == nil {
			err = netlink.LinkSetUp(l)
		}
		return err
	}
	err = errors.Join(err, up(name, "192.0.2.1/24"), up(port.Name, ""), within(func() error {
		return errors.Join(up(innerName, "192.0.2.2/24"), netlink.RouteAdd(&netlink.Route{Gw: net.IPv4(192, 0, 2, 1)}))
	}))
	if err != nil {
		t.Fatal(err)
	}
	return within
}

// A bridge within the host, as containers have, isn't reached, also if Docker accepts it, and whether it
// was there before the session or not. One by which the host reaches the outside is.
func TestBridges(t *testing.T) {
	early := made(t, Options{})
	container := echo(t, bridge(t, "br-test"), "192.0.2.2")
	late := made(t, Options{})
	accepting := rules{nftables.TableFamilyIPv4, "all", nftables.ChainPolicyAccept, []string{"FORWARD"}, map[string][]match{"FORWARD": {accept}}}
	table, err := accepting.put()
	if err != nil {
		t.Fatal(err)
	}
	defer removeTable(t, table)
	for name, n := range map[string]*Network{"made before": early, "made after": late} {
		for _, protocol := range []string{"tcp", "udp"} {
			if got, err := ask(n, protocol, container, short); err == nil {
				t.Errorf("a session %s the bridge is answered by %s: %q", name, protocol, got)
			}
		}
	}
	flushAll(t)
	if got, err := ask(early, "tcp", container, short); err == nil {
		t.Errorf("when the rules were flushed it is answered: %q", got)
	}
	second := &netlink.Route{Gw: net.IPv4(192, 0, 2, 2), Priority: 100}
	if err := netlink.RouteAdd(second); err != nil {
		t.Fatal(err)
	}
	if names := uplinkBridges(); !slices.Equal(names, []string{"br-test"}) {
		t.Fatalf("the bridges that lead out are %q", names)
	}
	n := made(t, Options{})
	if got, err := ask(n, "tcp", container, long); err != nil {
		t.Errorf("through a bridge that leads out: %q, %v", got, err)
	}
	if err := netlink.RouteDel(second); err != nil {
		t.Fatal(err)
	}
	made(t, Options{})
	if got, err := ask(n, "tcp", container, short); err == nil {
		t.Errorf("through a bridge that led out it is answered: %q", got)
	}
}

// Several that close and are made at the same time leave what is needed, and then nothing.
func TestLastOneRemovesAll(t *testing.T) {
	peer := echo(t, inOutside, peerAddress)
	defer undocker(filters[0])
	docker(t, filters[0])
	before := ownersRules(t, filters[0])
	for range 5 {
		closed := make(chan struct{})
		for range 3 {
			n := made(t, Options{})
			go func() { n.Close(); closed <- struct{}{} }()
		}
		last := made(t, Options{})
		for range 3 {
			<-closed
		}
		reaches(t, last, peer)
		last.Close()
		nothingLeft(t, filters[0], before)
	}
}
