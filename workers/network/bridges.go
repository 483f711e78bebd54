package network

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// bridgesName is the name of the host's table that keeps sessions from the networks that are within
// the host: those of containers and virtual machines, whose interface is a bridge that leads nowhere
// else. It isn't in the table that earlier versions share.
//
// While it is missing, as after `nft flush ruleset`, the host forwards nothing: the guards leave a
// packet one hop, and this table gives it the rest.
const bridgesName = "diapause-bridges"

// The chains of that table.
const (
	forwardChain = "forward"
	uplinksChain = "uplinks" // accepts what goes out through a bridge, too
)

// toBridge holds for packets that leave through a bridge (NFT_META_OIFKIND, which the library lacks).
var toBridge = through(expr.MetaKey(27), expr.CmpOpEq, "bridge", true)

func fillBridges(c *nftables.Conn) {
	t := c.CreateTable(&nftables.Table{Name: bridgesName, Family: nftables.TableFamilyINet})
	uplinks := c.AddChain(&nftables.Chain{Name: uplinksChain, Table: t})
	for _, name := range uplinkBridges() {
		acceptTo(c, uplinks, name)
	}
	arrive := c.AddChain(&nftables.Chain{
		Name: "arrive", Table: t, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityMangle,
	})
	add(c, arrive, fromSession, is4, hops(4, usualHops))
	add(c, arrive, fromSession, is6, hops(6, usualHops))
	forward := c.AddChain(&nftables.Chain{
		Name: forwardChain, Table: t, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityMangle,
	})
	add(c, forward, fromSession, jump(uplinksChain))
	add(c, forward, fromSession, toBridge, drop)
}

func acceptTo(c *nftables.Conn, chain *nftables.Chain, name string) {
	add(c, chain, through(expr.MetaKeyOIFNAME, expr.CmpOpEq, name, true), accept)
}

// refreshUplinks has the table know the bridges that lead out now.
func refreshUplinks() error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	t := &nftables.Table{Name: bridgesName, Family: nftables.TableFamilyINet}
	chain := &nftables.Chain{Name: uplinksChain, Table: t}
	rules, err := c.GetRules(t, chain)
	if err != nil {
		return fmt.Errorf("list the rules of %s: %w", bridgesName, err)
	}
	var have []string
	for _, r := range rules {
		for _, e := range r.Exprs {
			if cmp, ok := e.(*expr.Cmp); ok {
				have = append(have, strings.TrimRight(string(cmp.Data), "\x00"))
			}
		}
	}
	want := uplinkBridges()
	if slices.Equal(have, want) {
		return nil
	}
	c.FlushChain(chain)
	for _, name := range want {
		acceptTo(c, chain, name)
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("change the rules of %s: %w", bridgesName, err)
	}
	return nil
}

// uplinkBridges names the bridges by which a default route leads, sorted.
func uplinkBridges() []string {
	var all []string
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		routes, err := netlink.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_TABLE)
		if err != nil {
			continue // without it a bridge that leads out is taken for one that doesn't
		}
		for _, r := range routes {
			if r.Dst != nil && !r.Dst.IP.IsUnspecified() {
				continue
			}
			if link, err := netlink.LinkByIndex(r.LinkIndex); err == nil && link.Type() == "bridge" {
				all = append(all, link.Attrs().Name)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
