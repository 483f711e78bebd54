package network

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/thread"
)

// Options say what network to make.
type Options struct {
	// Isolated has no way out, and needs nothing of the host.
	Isolated bool
	// Locked lets nothing move inside but what criu sends, until Unlock.
	Locked bool
	// AllowOut are the only addresses that the session reaches outside; none if it is empty and
	// not nil, all but those that no session reaches if nil.
	AllowOut []netip.Prefix
}

// Network is the network of one session. Its methods may be called from several goroutines.
type Network struct {
	mu     sync.Mutex // guards space
	space  *os.File   // the namespace; nil when it is given up
	hold   sync.Mutex // guards held
	held   bool       // by Hold
	number uint16     // of its veth pair, 0 if it is isolated
	guard  *guard     // likewise nil
	six    bool       // IPv6 leads out
}

// Make makes a network. It lasts until Close, or the end of this process, and of the last
// process in it.
func Make(o Options) (*Network, error) {
	n := &Network{}
	err := thread.Discard(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		var err error
		if n.space, err = os.Open("/proc/thread-self/ns/net"); err != nil {
			return fmt.Errorf("open a network namespace: %w", err)
		}
		if err := loopback(o); err != nil {
			return err
		}
		if o.Locked {
			return lock()
		}
		return nil
	})
	if err == nil && !o.Isolated {
		err = n.connect(o)
	}
	if err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

// Close gives the network up. What runs in it has no way out from then on. With the last network
// of the host goes what the host has for all of them.
func (n *Network) Close() {
	if n == nil {
		return
	}
	n.end()
	if n.number != 0 && n.mark() == nil {
		_ = Tidy() // what stays is removed with the next one
	}
}

// Leave gives the network up as Close does, but for what takes the kernel long: some 10 ms, 30 if it is
// the host's last network. The caller passes the files to a process that stays, which calls Finish with them.
func (n *Network) Leave() []*os.File {
	if n == nil {
		return nil
	}
	if n.guard == nil {
		n.Close()
		return nil
	}
	guard, err := n.guard.dup()
	if err != nil || n.mark() != nil {
		n.Close()
		return nil
	}
	n.end()
	return []*os.File{guard}
}

// end closes all that this process holds of the network.
func (n *Network) end() {
	n.guard.close()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.space != nil {
		n.space.Close()
		n.space = nil
	}
}

// Finish removes what is left of networks that another process gave up by Leave.
func Finish(rest []*os.File) error {
	for _, f := range rest {
		f.Close()
	}
	return Tidy()
}

// File is the namespace; it stays the network's.
func (n *Network) File() *os.File { return n.space }

// Inside runs do in the network, on a thread of its own: sockets that it opens and processes that
// it starts are there.
func (n *Network) Inside(do func() error) error {
	space, err := n.opened()
	if err != nil {
		return err
	}
	defer space.Close()
	return enter(space, do)
}

// opened is the namespace by a descriptor of the caller's: after Close the network's own may be another
// file's.
func (n *Network) opened() (*os.File, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.space == nil {
		return nil, errors.New("enter the session's network: it is given up")
	}
	fd, err := unix.FcntlInt(n.space.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the session's network: %w", err)
	}
	return os.NewFile(uintptr(fd), n.space.Name()), nil
}

// enter runs do in a network namespace, on a thread of its own.
func enter(space *os.File, do func() error) error {
	return thread.Discard(func() error {
		if err := unix.Setns(int(space.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter the session's network: %w", err)
		}
		return do()
	})
}

// loopback brings lo up in this thread's namespace, with the address of what is served inside,
// and without a way out with the session's own, too.
func loopback(o Options) error {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer h.Close()
	lo := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: "lo", Index: 1}}
	addresses := []netip.Prefix{netip.PrefixFrom(Service, Service.BitLen())}
	if o.Isolated {
		addresses = append(addresses, netip.PrefixFrom(Inner.Addr(), 32))
		if hasIPv6() {
			addresses = append(addresses, netip.PrefixFrom(Inner6.Addr(), 128))
		}
	}
	if err := addAll(h, lo, addresses); err != nil {
		return err
	}
	if err := h.LinkSetUp(lo); err != nil {
		return fmt.Errorf("bring the loopback interface up: %w", err)
	}
	if !o.Isolated {
		return nil
	}
	return reachAll(h, lo)
}

// reachAll makes all addresses this namespace's own: what is connected to one can be restored, and
// reaches nothing.
func reachAll(h *netlink.Handle, lo netlink.Link) error {
	for _, all := range everything() {
		r := &netlink.Route{LinkIndex: lo.Attrs().Index, Dst: asNet(all), Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: netlink.SCOPE_HOST}
		if err := h.RouteAdd(r); err != nil {
			return fmt.Errorf("add a route to the loopback interface: %w", err)
		}
	}
	return nil
}

// everything is the prefix of all addresses of each family that this thread's namespace has.
func everything() []netip.Prefix {
	all := []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0)}
	if hasIPv6() {
		all = append(all, netip.PrefixFrom(netip.IPv6Unspecified(), 0))
	}
	return all
}

func addAll(h *netlink.Handle, l netlink.Link, all []netip.Prefix) error {
	for _, p := range all {
		a := &netlink.Addr{IPNet: asNet(p)}
		if p.Addr().Is6() {
			a.Flags = unix.IFA_F_NODAD
		}
		if err := h.AddrAdd(l, a); err != nil {
			return fmt.Errorf("add address %s to %s: %w", p, l.Attrs().Name, err)
		}
	}
	return nil
}

// hasIPv6 reports whether this thread's namespace can have addresses of IPv6.
func hasIPv6() bool {
	b, err := os.ReadFile("/proc/sys/net/ipv6/conf/default/disable_ipv6")
	return err == nil && strings.TrimSpace(string(b)) == "0"
}

// forwards6 reports whether the host forwards IPv6. It isn't turned on for sessions: a host that
// does no longer takes its own routes from routers.
func forwards6() bool {
	b, err := os.ReadFile("/proc/sys/net/ipv6/conf/all/forwarding")
	return err == nil && strings.TrimSpace(string(b)) == "1"
}

func deviceName(number uint16) string { return fmt.Sprintf("%s%04x", prefix, number) }

// connect gives the namespace its way out. The guard stands before anything can leave.
func (n *Network) connect(o Options) error {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer h.Close()
	mtu := hostMTU(h)
	link, number, err := addVeth(h, n.space, mtu)
	if err != nil {
		return err
	}
	n.number = number
	if err := prepareHost(); err != nil { // of a host that has seen the veth pair (leave)
		return err
	}
	if n.guard, err = newGuard(number, o.AllowOut); err != nil {
		return err
	}
	n.six = forwards6() && hasIPv6()
	if err := hostEnd(h, link, number, n.six); err != nil {
		return err
	}
	return n.Inside(func() error { return innerEnd(number, n.six, o.Locked) })
}

// hostMTU is the size of the largest packet that the host's ways out take.
func hostMTU(h *netlink.Handle) int {
	const usual = 1500
	mtu := 0
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		routes, err := h.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_TABLE)
		if err != nil {
			continue // without it packets are fragmented
		}
		for _, r := range routes {
			if r.Dst != nil && !r.Dst.IP.IsUnspecified() {
				continue
			}
			if link, err := h.LinkByIndex(r.LinkIndex); err == nil && (mtu == 0 || link.Attrs().MTU < mtu) {
				mtu = link.Attrs().MTU
			}
		}
	}
	if mtu < 1280 { // of no route, or of one that can't carry IPv6
		return usual
	}
	return mtu
}

// addVeth makes a veth pair with a number that no other session of this host has. The kernel
// refuses a name twice.
func addVeth(h *netlink.Handle, space *os.File, mtu int) (netlink.Link, uint16, error) {
	const attempts = 64
	for range attempts {
		number := uint16(1 + rand.IntN(highest))
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = deviceName(number), mtu
		v := &netlink.Veth{
			LinkAttrs: attrs, PeerName: innerName, PeerNamespace: netlink.NsFd(space.Fd()), PeerHardwareAddr: innerMAC, PeerMTU: uint32(mtu),
		}
		err := h.LinkAdd(v)
		if err == nil {
			link, err := h.LinkByName(attrs.Name)
			if err != nil {
				return nil, 0, fmt.Errorf("find the interface %s: %w", attrs.Name, err)
			}
			return link, number, nil
		}
		if !errors.Is(err, unix.EEXIST) {
			return nil, 0, fmt.Errorf("make a veth pair: %w", err)
		}
	}
	return nil, 0, errors.New("make a veth pair: too many sessions have one")
}

// hostEnd makes the host find the session by its addresses, without asking for its hardware
// address.
func hostEnd(h *netlink.Handle, link netlink.Link, number uint16, six bool) error {
	if err := noLinkLocal(h, link); err != nil {
		return err
	}
	if err := h.LinkSetUp(link); err != nil {
		return fmt.Errorf("bring %s up: %w", link.Attrs().Name, err)
	}
	addresses := []netip.Addr{outer(number)}
	if six {
		addresses = append(addresses, outer6(number))
	}
	for _, a := range addresses {
		if err := neighbour(h, link, a, innerMAC); err != nil {
			return err
		}
		if err := h.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: whole(a), Scope: netlink.SCOPE_LINK}); err != nil {
			return fmt.Errorf("add a route to %s: %w", a, err)
		}
	}
	return nil
}

// innerEnd makes eth0 of this thread's namespace what the session sees. While it is locked there is
// a route to each address, or what is connected to one couldn't be restored.
func innerEnd(number uint16, six, locked bool) error {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer h.Close()
	link, err := h.LinkByName(innerName)
	if err != nil {
		return fmt.Errorf("find the interface %s: %w", innerName, err)
	}
	if err := noLinkLocal(h, link); err != nil {
		return err
	}
	addresses := []netip.Prefix{Inner}
	if hasIPv6() {
		addresses = append(addresses, Inner6)
	}
	if err := addAll(h, link, addresses); err != nil {
		return err
	}
	if err := translate(number, six); err != nil {
		return err
	}
	if err := h.LinkSetUp(link); err != nil {
		return fmt.Errorf("bring %s up: %w", innerName, err)
	}
	gateways := []netip.Addr{gateway}
	if six || locked && hasIPv6() {
		gateways = append(gateways, gateway6)
	}
	for _, g := range gateways {
		if err := neighbour(h, link, g, gatewayMAC); err != nil {
			return err
		}
		if err := h.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: asIP(g)}); err != nil {
			return fmt.Errorf("add a route by %s: %w", g, err)
		}
	}
	return nil
}

func neighbour(h *netlink.Handle, link netlink.Link, a netip.Addr, mac net.HardwareAddr) error {
	n := &netlink.Neigh{LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT, IP: asIP(a), HardwareAddr: mac}
	if a.Is6() {
		n.Family = unix.AF_INET6
	}
	if err := h.NeighSet(n); err != nil {
		return fmt.Errorf("add neighbour %s: %w", a, err)
	}
	return nil
}

// noLinkLocal keeps an interface from getting an address by itself.
func noLinkLocal(h *netlink.Handle, link netlink.Link) error {
	const none = 1 // IN6_ADDR_GEN_MODE_NONE
	if err := h.LinkSetIP6AddrGenMode(link, none); err != nil && hasIPv6() {
		return fmt.Errorf("keep %s without a link-local address: %w", link.Attrs().Name, err)
	}
	return nil
}

// translate gives what leaves this thread's namespace the address that is the session's alone.
func translate(number uint16, six bool) error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	chain := c.AddChain(&nftables.Chain{
		Name: "leave", Table: c.AddTable(&nftables.Table{Name: tableName, Family: nftables.TableFamilyINet}),
		Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource,
	})
	out := through(expr.MetaKeyOIFNAME, expr.CmpOpEq, innerName, true)
	add(c, chain, out, is4, from(netip.PrefixFrom(Inner.Addr(), 32)), snat(outer(number)))
	if six {
		add(c, chain, out, is6, from(netip.PrefixFrom(Inner6.Addr(), 128)), snat(outer6(number)))
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("translate the session's addresses: %w", err)
	}
	return nil
}
