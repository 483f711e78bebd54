package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/doctor"
	"github.com/diapause/diapause/workers/network"
)

const networkPrivate = "private"

// networks are those that a process tree may have.
var networks = []string{networkPrivate, "host", "none"}

// checkDefaultNetwork refuses a network for all sessions that this host can't make.
func checkDefaultNetwork(name string) error {
	if !slices.Contains(networks, name) {
		return usagef("--network %q: want private, host or none", name)
	}
	if name != networkPrivate {
		return nil
	}
	if err := network.Try(); err != nil {
		return schemas.WithHint(fmt.Errorf("--network private: this host can't make private networks: %w", err), "`diapause doctor` says what is missing; leave --network out")
	}
	return nil
}

// tidyNetwork removes what the host has for private networks if it has none, now and when the
// function that it gives is called: a killed session may have left that. Where there is no nftables
// there is nothing to remove.
func tidyNetwork() func() {
	tidy := func() { _ = network.Tidy() } // the next session of a host that can't be tidied says why
	tidy()
	return tidy
}

// checkNetwork tries whether sessions can have a network of their own.
func checkNetwork() doctor.Check {
	return doctor.Check{
		Name: "network", What: "sessions can have a network of their own (run --network private)", Needs: []string{doctor.NamePrivileges, doctor.NameNamespaces},
		Run: func(context.Context) doctor.Result {
			if err := network.Try(); err != nil {
				r := fails(err, "use Linux 5.12 or newer and load its modules veth, nf_tables and nft_fib_netdev; in a container: CAP_NET_ADMIN and a writable /proc/sys/net")
				r.Status = doctor.Warn
				return r
			}
			return judgeForwarding(network.WouldBlock())
		},
	}
}

// judgeForwarding: other programs of the host may drop what sessions send. Those may still run.
func judgeForwarding(b *network.Block, err error) doctor.Result {
	if err != nil {
		r := fails(err, "look by hand whether the host's rules drop what comes from interfaces diap+")
		r.Status = doctor.Warn
		return r
	}
	if b != nil {
		return doctor.Result{Status: doctor.Warn, Detail: "sessions reach nothing outside: the chain " + b.Chain + " drops what the host forwards", Fix: b.Fix}
	}
	return doctor.Result{Status: doctor.OK, Detail: "veth pairs and nftables work, and /proc/sys/net can be written"}
}
