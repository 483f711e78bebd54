package network

import (
	"errors"
	"fmt"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const holdName = "diapause-hold"

// Hold keeps all TCP of the network as it is until Release: its packets are dropped in both directions, so
// that queues and sequence numbers are of one moment while criu reads them one socket after the other.
// What is dropped is sent again by its sender, as is usual for TCP. Callers have frozen the session: where no
// connection leads outside nothing changes by itself, and nothing is done.
func (n *Network) Hold() error {
	n.hold.Lock()
	defer n.hold.Unlock()
	if n.held {
		return nil
	}
	err := n.Inside(func() error {
		ends, err := connections()
		if err != nil || !leadOutside(ends) {
			return err
		}
		c, done, err := lasting()
		if err != nil {
			return err
		}
		defer done()
		t := c.AddTable(&nftables.Table{Name: holdName, Family: nftables.TableFamilyINet})
		for name, hook := range map[string]*nftables.ChainHook{"input": nftables.ChainHookInput, "output": nftables.ChainHookOutput} {
			chain := c.AddChain(&nftables.Chain{
				Name: name, Table: t, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: nftables.ChainPriorityRaw,
			})
			add(c, chain, protocol(unix.IPPROTO_TCP), drop)
		}
		if err := c.Flush(); err != nil {
			return err
		}
		n.held = true
		return nil
	})
	if err != nil {
		return fmt.Errorf("hold the session's connections: %w", err)
	}
	return nil
}

// lasting opens nftables for changes that don't wait for its end: the kernel takes some 7 ms to close it.
func lasting() (c *nftables.Conn, done func(), err error) {
	if c, err = nftables.New(nftables.AsLasting()); err != nil {
		return nil, nil, fmt.Errorf("open nftables: %w", err)
	}
	return c, func() {
		go func() { _ = c.CloseLasting() }() // nothing depends on it
	}, nil
}

// leadOutside reports whether one of the connections has its other end elsewhere.
func leadOutside(ends map[Connection]*netlink.Socket) bool {
	for c := range ends {
		if _, inside := ends[Connection{c.Remote, c.Local}]; !inside {
			return true
		}
	}
	return false
}

// Release undoes Hold.
func (n *Network) Release() error {
	n.hold.Lock()
	defer n.hold.Unlock()
	if !n.held {
		return nil
	}
	err := n.Inside(func() error {
		c, done, err := lasting()
		if err != nil {
			return err
		}
		defer done()
		c.DelTable(&nftables.Table{Name: holdName, Family: nftables.TableFamilyINet})
		return c.Flush()
	})
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("release the session's connections: %w", err)
	}
	n.held = false
	return nil
}
