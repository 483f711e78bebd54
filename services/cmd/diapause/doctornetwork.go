package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/doctor"
	"github.com/diapause/diapause/workers/network"
)

// networks are those that a process tree may have.
var networks = []string{schemas.NetworkPrivate, schemas.NetworkHost, schemas.NetworkNone}

// checkDefaultNetwork looks whether this host can make the network of sessions that name none. If not,
// one that was asked for is refused. Without a word on it `up` starts, since sessions that are there go
// on in theirs, and tells; each start of a session is refused then, unless that names a network.
func checkDefaultNetwork(name string, asked bool) error {
	if !slices.Contains(networks, name) {
		return usagef("--network %q: want private, host or none", name)
	}
	if name != schemas.NetworkPrivate || os.Geteuid() != 0 { // who isn't root is refused all of it
		return nil
	}
	err := network.Try()
	if err != nil && asked {
		return schemas.WithHint(fmt.Errorf("--network private: this host can't make private networks: %w", err),
			"`diapause doctor` says what is missing; --network host has sessions share the host's network")
	}
	warnOfNetwork(err)
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

// warnOfNetwork tells who starts a part that runs sessions what private networks lack here, or why
// there can't be any.
func warnOfNetwork(err error) {
	if err != nil {
		fmt.Fprintf(complained, "warning: this host can't make private networks, which sessions have by default: %v\n"+
			"`diapause doctor` says what is missing; until then sessions are run here with --network host or none\n", err)
		return
	}
	if b, err := network.WouldBlock(); err == nil && b != nil { // doctor tells what can't be read
		fmt.Fprintf(complained, "warning: sessions reach nothing outside: the chain %s drops what the host forwards\n%s\n", b.Chain, b.Fix)
	}
}

// checkNetwork tries whether sessions can have the network that they get by default.
func checkNetwork(name string) doctor.Check {
	return doctor.Check{
		Name: "network", What: "sessions can have a network of their own, as they have by default", Needs: []string{doctor.NamePrivileges, doctor.NameNamespaces},
		Run: func(context.Context) doctor.Result {
			if err := network.Try(); err != nil {
				return judgeNetwork(err, name)
			}
			return judgeForwarding(network.WouldBlock())
		},
	}
}

// judgeNetwork: without private networks nothing runs that doesn't name another.
func judgeNetwork(err error, name string) doctor.Result {
	r := fails(err, "use Linux 5.12 or newer and load its modules veth, nf_tables and nft_fib_netdev; in a container: CAP_NET_ADMIN and a writable /proc/sys/net; or start `diapause up --network host`, and sessions share the host's network")
	if name != schemas.NetworkPrivate {
		r.Status = doctor.Warn
	}
	return r
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
