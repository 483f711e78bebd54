package network

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Keeper makes the host's tables again when one was removed while a session needs it, as `nft flush ruleset`
// does, and has Docker let sessions' packets pass when it makes its chain, as it does when it is started.
// A process that stays has one for all sessions: each event wakes all who listen.
type Keeper struct {
	events *netlink.Conn
	closed context.Context
	end    context.CancelFunc
}

// Keep starts a Keeper. It fails on a host without nftables, where there are no networks to keep.
func Keep() (*Keeper, error) {
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err == nil {
		if err = errors.Join(c.SetBPF(ofOthers), c.JoinGroup(unix.NFNLGRP_NFTABLES)); err != nil {
			c.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("watch the rules of nftables: %w", err)
	}
	k := &Keeper{events: c}
	k.closed, k.end = context.WithCancel(context.Background())
	go k.watch()
	go k.look()
	return k, nil
}

// ofOthers lets no event pass that a guard causes, some thirty with each session that starts or ends. Those of a guard's table come by themselves, since the process that
// has it makes nothing else in the same batch; what ends a batch (NEWGEN) is a message of its own.
//
// A message begins with its length (4 bytes), type (2) and flags (2), in the order of this machine, and
// 8 bytes more; then family (1), version (1), resource (2), and the first attribute, the table's name.
var ofOthers = mustAssemble(
	bpf.LoadAbsolute{Off: 4, Size: 2},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: networkOrder(unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWGEN), SkipTrue: 5},
	bpf.LoadAbsolute{Off: 16, Size: 1},
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.NFPROTO_NETDEV, SkipTrue: 2},
	bpf.LoadAbsolute{Off: 24, Size: 4},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: binary.BigEndian.Uint32([]byte(prefix)), SkipTrue: 1},
	bpf.RetConstant{Val: 1 << 20}, // all of it
	bpf.RetConstant{Val: 0},
)

// networkOrder is what a filter reads where a number of two bytes stands in this machine's order.
func networkOrder(n uint16) uint32 {
	return uint32(binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, n)))
}

func mustAssemble(filter ...bpf.Instruction) []bpf.RawInstruction {
	raw, err := bpf.Assemble(filter)
	if err != nil {
		panic(err)
	}
	return raw
}

// legacyEvery is how often a Keeper looks whether the rules of iptables-legacy have changed, of which
// there are no events.
var legacyEvery = 10 * time.Second

func (k *Keeper) look() {
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
		if now != seen && inUse() {
			_ = admitByLegacy() // a start or resume tells what stands in the way
			_ = Tidy()          // the last session may have ended meanwhile
		}
		seen = now
	}
}

// inUse reports whether a session may need what the host has for all.
func inUse() bool {
	used, err := anySession()
	return used || err != nil
}

func (k *Keeper) watch() {
	lost := true // what was removed while there was no Keeper
	for {
		if lost && inUse() {
			// Without it nothing leaves, and the next session says why.
			_ = prepareHost()
			_ = Tidy() // the last session may have ended meanwhile
		}
		all, err := k.events.Receive()
		lost = errors.Is(err, unix.ENOBUFS) // it may be among the lost events
		if err != nil && !lost {
			return // it is closed
		}
		for _, m := range all {
			lost = lost || changed(m)
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

// Close ends it. The tables stay.
func (k *Keeper) Close() {
	if k != nil {
		k.end()
		_ = k.events.Close() // it only listens
	}
}
