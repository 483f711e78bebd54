package main

import (
	"cmp"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/events/lease"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/run"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/network"
)

const workerHelp = `Run the sessions of this host, and nothing else, until it is interrupted: one more
host beside a "diapause up" that uses the same NATS server and the same store of
images. Sessions outlive it: they run on, and the next "diapause worker" of the same
--data finds them.

The host holds a lease. If it is not renewed for its --lease (this host died, or can't
reach NATS), its sessions may go on elsewhere: those that were being started, resumed
or suspended, and those that run and were made with "run --on-host-loss resume". The
latter freeze by themselves before that, at two thirds of the lease.`

func workerCommand(c *client) *cobra.Command {
	var f upFlags
	var id string
	cmd := &cobra.Command{
		Use: "worker", Short: "Run the sessions of one more host", Long: workerHelp, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.nats == "" {
				return usagef("worker: name the NATS server with --nats, and its credentials with --creds")
			}
			if f.store == "" {
				return usagef("worker: name the store that the other hosts use with --store")
			}
			if id != "" && !schemas.ValidToken(id) {
				return usagef("--host-id %q: want 1 to 64 of A-Z a-z 0-9 _ -", id)
			}
			all, err := f.config(c)
			if err != nil {
				return err
			}
			defer tidyNetwork()()
			if os.Geteuid() == 0 { // else it doesn't start
				warnOfNetwork(network.Try())
			}
			return run.Worker(cmd.Context(), run.WorkerConfig{
				Process: all.Process, ID: schemas.HostID(id), Data: all.Data, NATS: all.NATS, Keys: all.Keys, Images: all.Images, Host: all.Host,
			})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.nats, "nats", os.Getenv("DIAPAUSE_URL"), "the NATS server that the fleet uses, with --creds (DIAPAUSE_URL)")
	fl.StringVar(&id, "host-id", os.Getenv("DIAPAUSE_HOST_ID"), "the id of this host, which its data directory keeps; no two hosts have the same (default the machine's name and a random part) (DIAPAUSE_HOST_ID)")
	fl.StringArrayVar(&f.identities, "identity-file", nil, "further age identities that open images")
	fl.StringArrayVar(&f.recipients, "recipient", nil, "further age recipients that new images are encrypted to")
	fl.BoolVar(&f.suspender, "suspend-only", false, "write images for the --recipient alone: this host's own key opens none")
	fl.StringVar(&f.store, "store", os.Getenv("DIAPAUSE_STORE"), storeHelp)
	fl.BoolVar(&f.moved, "store-moved", false, "take another --store than before: its objects were copied there")
	fl.StringVar(&f.capture, "capture", cmp.Or(os.Getenv("DIAPAUSE_CAPTURE"), string(driver.WayAuto)), "how memory goes into an image and back: in memory, buffered, as a stream, or auto")
	fl.StringVar(&f.budget, "budget", os.Getenv("DIAPAUSE_BUDGET"), "how far images may be scattered over the packs of earlier ones, if not live=40%,packs=256 (DIAPAUSE_BUDGET)")
	fl.BoolVar(&f.dense, "dense", false, "make first images small rather than fast")
	leaseFlag(cmd, &f)
	slotsFlag(cmd, &f.slots)
	labelFlag(cmd, &f.labels)
	operationsFlag(cmd, &f.operations)
	metricsFlag(cmd, &f.metrics)
	dockerFlag(cmd, &f.docker)
	hideFlag(cmd, &f.hidden)
	searchFlag(cmd, &f.search)
	shutdownFlag(cmd, &f.shutdown)
	advertiseFlags(cmd, &f.direct)
	f.log.flags(cmd)
	return cmd
}

func leaseFlag(cmd *cobra.Command, f *upFlags) {
	durationVar(cmd.Flags(), &f.lease, "lease", lease.DefaultTerm, "how long this host counts as there after it was heard of last")
}

func slotsFlag(cmd *cobra.Command, slots *int) {
	cmd.Flags().IntVar(slots, "slots", 0, "how many sessions this host has room for; above 8 of 10 of them the ones that matter least are suspended. No limit if 0, unless a default says otherwise")
}

func labelFlag(cmd *cobra.Command, to *[]string) {
	cmd.Flags().StringArrayVar(to, "label", nil, "what this host is called by, `K=V`: sessions that are run with that --host-label go to such hosts alone")
}

// parseLabels reads labels of hosts; nil if there are none.
func parseLabels(flag string, given []string) (map[string]string, error) {
	var out map[string]string
	for _, one := range given {
		k, v, ok := strings.Cut(one, "=")
		if !ok || !schemas.ValidToken(k) {
			return nil, usagef("--%s %q: want K=V, K of letters, digits, - and _", flag, one)
		}
		if out == nil {
			out = map[string]string{}
		}
		out[k] = v
	}
	return out, nil
}

func operationsFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "operations", os.Getenv("DIAPAUSE_OPERATIONS"), "how many suspends and resumes go on at a time, and how much memory they take in this process, if not count=twice the cores but 4 at least,memory=1G (DIAPAUSE_OPERATIONS)")
}

// shortest is a lease that a busy machine can still renew in time.
const shortest = time.Second

func checkSlots(n int) error {
	if n < 0 {
		return usagef("--slots %d: want a number of sessions, 0 for no limit", n)
	}
	return nil
}

func checkLease(term time.Duration) error {
	if term < shortest || term > time.Hour {
		return usagef("--lease: want 1s to 1h")
	}
	return nil
}
