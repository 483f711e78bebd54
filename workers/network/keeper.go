package network

import (
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// keeper makes the host's table again when it was removed, as `nft flush ruleset` does.
type keeper struct{ events *netlink.Conn }

func keep() (*keeper, error) {
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err == nil {
		if err = c.JoinGroup(unix.NFNLGRP_NFTABLES); err != nil {
			c.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("watch the rules of nftables: %w", err)
	}
	k := &keeper{events: c}
	go k.watch()
	return k, nil
}

func (k *keeper) watch() {
	for {
		all, err := k.events.Receive()
		lost := errors.Is(err, unix.ENOBUFS) // it may be among the lost events
		if err != nil && !lost {
			return // it is closed
		}
		for _, m := range all {
			lost = lost || removed(m)
		}
		if lost {
			_ = ensureTable() // without it nothing leaves, and the next session says why
		}
	}
}

// removed reports whether an event is the removal of the host's table.
func removed(m netlink.Message) bool {
	const head = 4 // family, version, resource
	if m.Header.Type != unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_DELTABLE || len(m.Data) < head || m.Data[0] != unix.NFPROTO_INET {
		return false
	}
	attributes, err := netlink.UnmarshalAttributes(m.Data[head:])
	if err != nil {
		return false
	}
	for _, a := range attributes {
		if a.Type == unix.NFTA_TABLE_NAME {
			return string(a.Data) == tableName+"\x00"
		}
	}
	return false
}

func (k *keeper) close() {
	if k != nil {
		_ = k.events.Close() // it only listens
	}
}
