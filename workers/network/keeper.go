package network

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// keeper makes the host's tables again when one was removed, as `nft flush ruleset` does, and
// has Docker let sessions' packets pass when it makes its chain, as it does when it is started.
type keeper struct {
	events *netlink.Conn
	closed context.Context
	end    context.CancelFunc
}

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
	k.closed, k.end = context.WithCancel(context.Background())
	go k.watch()
	go k.look()
	return k, nil
}

// legacyEvery is how often a keeper looks whether the rules of iptables-legacy have changed, of which
// there are no events.
var legacyEvery = 10 * time.Second

func (k *keeper) look() {
	tick := time.NewTicker(legacyEvery)
	defer tick.Stop()
	var seen [2]string
	for {
		select {
		case <-k.closed.Done():
			return
		case <-tick.C:
		}
		var now [2]string
		for i, l := range legacies {
			now[i] = l.extent()
		}
		if now != seen {
			_ = admitByLegacy() // a start or resume tells what stands in the way
			seen = now
		}
	}
}

func (k *keeper) watch() {
	for {
		all, err := k.events.Receive()
		lost := errors.Is(err, unix.ENOBUFS) // it may be among the lost events
		if err != nil && !lost {
			return // it is closed
		}
		for _, m := range all {
			lost = lost || changed(m)
		}
		if lost {
			// Without it nothing leaves, and the next session says why.
			_ = prepareHost()
		}
	}
}

// changed reports whether an event is the removal of one of the host's tables, or a chain that Docker
// made for its owner.
func changed(m netlink.Message) bool {
	const head = 4 // family, version, resource
	if len(m.Data) < head {
		return false
	}
	attributes, err := netlink.UnmarshalAttributes(m.Data[head:])
	if err != nil {
		return false
	}
	has := func(kind uint16, names ...string) bool {
		return slices.ContainsFunc(attributes, func(a netlink.Attribute) bool {
			return a.Type == kind && slices.Contains(names, strings.TrimRight(string(a.Data), "\x00"))
		})
	}
	switch m.Header.Type {
	case unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_DELTABLE:
		return m.Data[0] == unix.NFPROTO_INET && has(unix.NFTA_TABLE_NAME, tableName, bridgesName)
	case unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWCHAIN:
		return has(unix.NFTA_CHAIN_NAME, dockerUser)
	}
	return false
}

func (k *keeper) close() {
	if k != nil {
		k.end()
		_ = k.events.Close() // it only listens
	}
}
