package network

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const lockName = "diapause-restore"

// lock drops all packets in this thread's namespace but criu's. criu's own lock leaves a
// namespace alone that it didn't make: without one, the end of a connection that is restored
// first is reset by the kernel for what it sends to the other, which isn't there yet.
func lock() error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	t := c.AddTable(&nftables.Table{Name: lockName, Family: nftables.TableFamilyINet})
	for name, hook := range map[string]*nftables.ChainHook{"input": nftables.ChainHookInput, "output": nftables.ChainHookOutput} {
		chain := c.AddChain(&nftables.Chain{
			Name: name, Table: t, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: nftables.ChainPriorityRaw,
		})
		add(c, chain, unmarked, drop)
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("lock the session's network: %w", err)
	}
	return nil
}

// Unlock lets packets move that Locked held back.
func (n *Network) Unlock() error {
	return n.Inside(func() error {
		c, done, err := lasting()
		if err != nil {
			return err
		}
		defer done()
		c.DelTable(&nftables.Table{Name: lockName, Family: nftables.TableFamilyINet})
		if err := c.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("unlock the session's network: %w", err)
		}
		if n.six || n.guard == nil || !hasIPv6() {
			return nil
		}
		err = netlink.RouteDel(&netlink.Route{Dst: asNet(netip.PrefixFrom(netip.IPv6Unspecified(), 0)), Gw: asIP(gateway6)})
		if err != nil {
			return fmt.Errorf("remove the route by %s: %w", gateway6, err)
		}
		return nil
	})
}
