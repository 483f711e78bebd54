package network

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/thread"
)

// View is what a process with CAP_NET_ADMIN may change of a network, in sorted words for a person:
// interfaces, addresses, routes, rules of routing and tables of packet filters. Neighbours, queueing
// and settings below /proc/sys aren't in it.
type View []string

// View looks at the network.
func (n *Network) View() (v View, err error) {
	err = n.Inside(func() (err error) {
		v, err = look()
		return err
	})
	return v, err
}

// ViewOf looks at a network namespace.
func ViewOf(space *os.File) (v View, err error) {
	err = enter(space, func() (err error) {
		v, err = look()
		return err
	})
	return v, err
}

// LoopbackView is what ViewOf gives for a new namespace whose loopback interface is up.
func LoopbackView() (v View, err error) {
	err = thread.Discard(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		lo := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: "lo", Index: 1}}
		if err := netlink.LinkSetUp(lo); err != nil {
			return fmt.Errorf("bring the loopback interface up: %w", err)
		}
		v, err = look()
		return err
	})
	return v, err
}

// Since lists what is different from an earlier view: what came as it is, and what went after a "no".
func (v View) Since(first View) (changes []string) {
	for _, now := range v {
		if !slices.Contains(first, now) {
			changes = append(changes, now)
		}
	}
	for _, was := range first {
		if !slices.Contains(v, was) {
			changes = append(changes, "no "+was)
		}
	}
	return changes
}

// look looks at this thread's namespace.
func look() (View, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	defer h.Close()
	names := map[int]string{}
	var v View
	for _, part := range []func(*netlink.Handle, map[int]string) (View, error){links, addresses, routes, routingRules, filterTables} {
		more, err := part(h, names)
		if err != nil {
			return nil, fmt.Errorf("look at a session's network: %w", err)
		}
		v = append(v, more...)
	}
	slices.Sort(v)
	return slices.Compact(v), nil
}

// links fills names, which the other parts read.
func links(h *netlink.Handle, names map[int]string) (v View, err error) {
	all, err := listed(h.LinkList())
	for _, l := range all {
		a := l.Attrs()
		names[a.Index] = a.Name
		state := "down"
		if a.Flags&net.FlagUp != 0 {
			state = "up"
		}
		v = append(v, fmt.Sprintf("interface %s (%s, mtu %d)", a.Name, state, a.MTU))
	}
	return v, err
}

func addresses(h *netlink.Handle, names map[int]string) (v View, err error) {
	all, err := listed(h.AddrList(nil, netlink.FAMILY_ALL))
	for _, a := range all {
		v = append(v, fmt.Sprintf("address %s of %s", a.IPNet, names[a.LinkIndex]))
	}
	return v, err
}

// routes are those of the table that people write to. The kernel's own follow from addresses.
func routes(h *netlink.Handle, names map[int]string) (v View, err error) {
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		all, err := listed(h.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE))
		if err != nil {
			return nil, err
		}
		for _, r := range all {
			if r.Table == unix.RT_TABLE_LOCAL || r.Protocol == unix.RTPROT_KERNEL {
				continue
			}
			text := "route to " + r.Dst.String()
			if r.Gw != nil {
				text += " by " + r.Gw.String()
			}
			if r.Table != unix.RT_TABLE_MAIN {
				text += fmt.Sprintf(" of table %d", r.Table)
			}
			v = append(v, text+" on "+names[r.LinkIndex])
		}
	}
	return v, nil
}

func routingRules(h *netlink.Handle, _ map[int]string) (v View, err error) {
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		all, err := listed(h.RuleList(family))
		if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) {
			continue // this kernel has none
		}
		if err != nil {
			return nil, err
		}
		for _, r := range all {
			v = append(v, fmt.Sprintf("rule %d to table %d", r.Priority, r.Table))
		}
	}
	return v, nil
}

// legacyTables list the tables of iptables that were used, of the kind that nftables doesn't see.
var legacyTables = []string{"ip_tables_names", "ip6_tables_names", "arp_tables_names"}

func filterTables(_ *netlink.Handle, _ map[int]string) (v View, err error) {
	c, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("open nftables: %w", err)
	}
	tables, err := c.ListTables()
	if err != nil {
		return nil, fmt.Errorf("list tables of nftables: %w", err)
	}
	chains, err := c.ListChains()
	if err != nil {
		return nil, fmt.Errorf("list chains of nftables: %w", err)
	}
	for _, t := range tables {
		count := 0
		for _, chain := range chains {
			if chain.Table.Name != t.Name || chain.Table.Family != t.Family {
				continue
			}
			found, err := c.GetRules(t, chain)
			if err != nil {
				return nil, fmt.Errorf("list rules of nftables: %w", err)
			}
			count += len(found)
		}
		v = append(v, fmt.Sprintf("table %s of nftables with %d rules", t.Name, count))
	}
	for _, name := range legacyTables {
		b, _ := os.ReadFile("/proc/thread-self/net/" + name) // not there where nothing was loaded
		for _, table := range strings.Fields(string(b)) {
			v = append(v, fmt.Sprintf("table %s of iptables (%s)", table, name))
		}
	}
	return v, nil
}

// listed takes a list that something was added to or removed from meanwhile as it is.
func listed[T any](all []T, err error) ([]T, error) {
	if errors.Is(err, netlink.ErrDumpInterrupted) {
		err = nil
	}
	return all, err
}
