package network

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// enclosing gives the networks of what this namespace is a guest of: in a container, the one of the bridge
// that it is on, with the real host's address there and the containers beside it. Such a namespace
// has a veth pair for its way out, whose other end is in another one.
func enclosing() (all []netip.Prefix, err error) {
	seen := map[int]bool{}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		routes, err := listed(netlink.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_TABLE))
		if err != nil {
			return nil, fmt.Errorf("list the routes of this host: %w", err)
		}
		for _, r := range routes {
			if r.Dst != nil && !r.Dst.IP.IsUnspecified() {
				continue
			}
			link, err := netlink.LinkByIndex(r.LinkIndex)
			if err != nil || link.Type() != "veth" {
				continue
			}
			if gw, ok := netip.AddrFromSlice(r.Gw); ok { // which may be in none of the networks
				all = append(all, netip.PrefixFrom(gw.Unmap(), gw.Unmap().BitLen()))
			}
			if seen[r.LinkIndex] {
				continue
			}
			seen[r.LinkIndex] = true
			addresses, err := listed(netlink.AddrList(link, netlink.FAMILY_ALL))
			if err != nil {
				return nil, fmt.Errorf("list the addresses of %s: %w", link.Attrs().Name, err)
			}
			for _, a := range addresses {
				if p, ok := prefixOf(a.IPNet); ok {
					all = append(all, p)
				}
			}
		}
	}
	slices.SortFunc(all, netip.Prefix.Compare)
	return slices.Compact(all), nil
}

func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	a, ok := netip.AddrFromSlice(n.IP)
	if !ok {
		return netip.Prefix{}, false
	}
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(a.Unmap(), bits).Masked(), true
}
