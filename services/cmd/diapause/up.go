package main

import (
	"cmp"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/janitor"
	"github.com/diapause/diapause/services/run"
	"github.com/diapause/diapause/workers/docker"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/turns"
)

const storeHelp = "where images go: s3://BUCKET/PREFIX?endpoint=https://HOST, dir:///PATH, or nothing for the data directory (DIAPAUSE_STORE)"

// upFlags are the flags of up.
type upFlags struct {
	listen     string
	nats       string
	identities []string
	recipients []string
	suspender  bool // never opens an image with its own key
	store      string
	moved      bool // the images are in this store now
	capture    string
	retention  string
	budget     string
	dense      bool
	without    []string // hosts that a recovery doesn't wait for
	recover    bool     // make the records again from what this host and the store know
	lease      time.Duration
	slots      int
	labels     []string // of this host, k=v
	operations string   // how many captures and restores go on at a time
	metrics    string
	usage      time.Duration // between the events of what sessions used
	docker     string        // the engine's address
	hidden     []string      // files that sessions don't see
	search     int64         // bytes that indexes of recordings take in memory
	shutdown   string        // what becomes of sessions when the machine shuts down
	direct     run.Direct    // where clients connect without NATS
	network    string        // of process trees that don't say which they want
	preset     string        // of defaults
	http       string        // where the gateway listens
	web        webFlags      // and how it is seen from outside
	log        logging
}

const upHelp = `Run everything in this process, until it is interrupted: NATS with JetStream on
loopback, the scheduler, the worker of this host, a directory of encrypted images,
and the API that the other verbs use, also over HTTP (--http). Sessions outlive it: they run on, and the
next "diapause up" of the same --data finds them.

Any program on this machine may publish activity, without credentials:

  nats pub diapause.v1.activity.default.work.input ''

Everything else takes the credentials in the data directory, which only root reads.

Variables say what sessions are held to where no policy says otherwise ("diapause policy get" names
them): TERMINAL_MAX_ACTIVE_SESSIONS (slots of each host without --slots), TERMINAL_HIBERNATE_AFTER_MINS
(grace of the class terminal), TERMINAL_ARCHIVE_AFTER_DAYS (when terminals are archived),
TERMINAL_MAX_TOTAL_SESSIONS (of a tenant outside the archive), IDLE_SNAPSHOT_DELAY_SECONDS (grace of web
and desktop) and SANDBOX_TIMEOUT_SECONDS (life of all sessions, a day at most). A flag wins over them, a
policy over both.`

func upCommand(c *client) *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{
		Use: "up", Short: "Run everything in this process", Long: upHelp, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			defaults, err := f.defaults(cmd)
			if err != nil {
				return err
			}
			conf, err := f.config(c)
			if err != nil {
				return err
			}
			conf.Control.Defaults = defaults
			if err := checkDefaultNetwork(f.network, cmd.Flags().Changed("network")); err != nil {
				return err
			}
			if conf.HTTP, err = checkHTTP(f.http); err != nil {
				return err
			}
			if conf.Web, err = f.web.config(c.data); err != nil {
				return err
			}
			defer tidyNetwork()()
			return run.Up(cmd.Context(), conf)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.listen, "listen", "127.0.0.1:4222", "address of the embedded NATS server; port 0 takes a free one")
	fl.StringVar(&f.nats, "nats", "", "use the NATS server at this URL instead, with --creds")
	fl.StringArrayVar(&f.identities, "identity-file", nil, "further age identities that open images")
	fl.StringArrayVar(&f.recipients, "recipient", nil, "further age recipients that new images are encrypted to")
	fl.BoolVar(&f.suspender, "suspend-only", false, "write images for the --recipient alone: this host's own key opens none")
	fl.StringVar(&f.store, "store", os.Getenv("DIAPAUSE_STORE"), storeHelp)
	fl.BoolVar(&f.moved, "store-moved", false, "take another --store than before: its objects were copied there")
	fl.StringVar(&f.capture, "capture", cmp.Or(os.Getenv("DIAPAUSE_CAPTURE"), string(driver.WayAuto)), "how memory goes into an image and back: in memory, buffered, as a stream, or auto: buffered or in memory if there is room")
	retentionFlag(cmd, &f.retention)
	fl.StringVar(&f.budget, "budget", os.Getenv("DIAPAUSE_BUDGET"), "how far images may be scattered over the packs of earlier ones, if not live=40%,packs=256 (DIAPAUSE_BUDGET)")
	fl.BoolVar(&f.dense, "dense", false, "make first images small rather than fast")
	fl.StringArrayVar(&f.without, "recover-without", nil, "a host that is gone for good: a recovery doesn't wait for what it knows")
	fl.BoolVar(&f.recover, "recover", false, "make lost records of sessions again from what this host and the store know, without a sign that some were lost, and from other hosts' images too")
	leaseFlag(cmd, &f)
	slotsFlag(cmd, &f.slots)
	labelFlag(cmd, &f.labels)
	operationsFlag(cmd, &f.operations)
	metricsFlag(cmd, &f.metrics)
	usageFlag(cmd, &f.usage)
	dockerFlag(cmd, &f.docker)
	hideFlag(cmd, &f.hidden)
	searchFlag(cmd, &f.search)
	shutdownFlag(cmd, &f.shutdown)
	advertiseFlags(cmd, &f.direct)
	defaultNetworkFlag(cmd, &f.network)
	presetFlag(cmd, &f.preset)
	httpFlag(cmd, &f.http)
	f.web.flags(cmd)
	f.log.flags(cmd)
	return cmd
}

// config reads the flags of up, and of worker, which are some of them.
func (f upFlags) config(c *client) (conf run.UpConfig, err error) {
	log, err := f.log.open()
	if err != nil {
		return conf, err
	}
	conf = run.UpConfig{
		Process:  run.Process{Version: version, Metrics: f.metrics, Out: os.Stdout, Log: log},
		Data:     c.data,
		NATS:     run.NATS{URL: f.nats, Creds: c.creds, Listen: f.listen},
		Keys:     run.Keys{IdentityFiles: f.identities, Recipients: f.recipients, SuspendOnly: f.suspender},
		Images:   run.Images{Store: f.store, Moved: f.moved},
		Host:     run.Host{Dense: f.dense, Lease: f.lease, Slots: f.slots, Docker: f.docker, Hidden: f.hidden, SearchMemory: f.search, EndWithMachine: f.shutdown == shutdownEnd, Direct: f.direct},
		Recovery: run.Recovery{Force: f.recover},
		Control:  run.Control{Usage: f.usage, Network: f.network},
		Person:   term.IsTerminal(int(os.Stdout.Fd())),
	}
	for _, h := range f.without {
		conf.Recovery.Without = append(conf.Recovery.Without, schemas.HostID(h))
	}
	if err := cmp.Or(checkLease(f.lease), checkSlots(f.slots), checkAdvertised(f.direct)); err != nil {
		return conf, err
	}
	if f.shutdown != shutdownSuspend && f.shutdown != shutdownEnd {
		return conf, usagef("--on-shutdown %s: want %s or %s", f.shutdown, shutdownSuspend, shutdownEnd)
	}
	if f.usage < 0 {
		return conf, usagef("--usage-every %s: want a time above 0, or 0 for never", f.usage)
	}
	if conf.Host.Labels, err = parseLabels("label", f.labels); err != nil {
		return conf, err
	}
	if conf.Host.Capture, err = driver.ParseWay(f.capture); err != nil {
		return conf, usagef("--capture: %v", err)
	}
	if conf.Control.Retention, err = janitor.ParsePolicy(f.retention); err != nil {
		return conf, usage(err)
	}
	if conf.Host.Operations, err = turns.ParseLimits(f.operations); err != nil {
		return conf, usage(err)
	}
	if conf.Host.Budget, err = image.ParseBudget(f.budget); err != nil {
		return conf, usage(err)
	}
	return conf, nil
}

func metricsFlag(cmd *cobra.Command, address *string) {
	cmd.Flags().StringVar(address, "metrics", os.Getenv("DIAPAUSE_METRICS"),
		"serve /metrics, /healthz and /readyz over HTTP at this address, e.g. 127.0.0.1:9419; nowhere if empty (DIAPAUSE_METRICS)")
}

func retentionFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "retention", os.Getenv("DIAPAUSE_RETENTION"), "what snapshots are kept, and what stays of the log in NATS, if not age=7d,age.desktop=24h,count=10,overall=100,bytes=10G,first=oldest,expire=never,log=30d,log.count=64,log.removed=7d (DIAPAUSE_RETENTION)")
}

func defaultNetworkFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "network", schemas.DefaultNetwork, "the network of process trees that are run without --network: private, host or none; those that are there keep theirs")
}

func usageFlag(cmd *cobra.Command, every *time.Duration) {
	durationVar(cmd.Flags(), every, "usage-every", time.Hour, "how often to publish what each session used, on diapause.v1.event.<tenant>.<session>.usage; 0 for never")
}

func hideFlag(cmd *cobra.Command, to *[]string) {
	cmd.Flags().StringArrayVar(to, "hide", nil, "a further file or directory of the host that process trees don't see; the data directory, --creds, --identity-file, --tls-key, --tls-dir, a dir:// store, files with an S3 store's credentials and the engine's socket are hidden anyway")
}

func searchFlag(cmd *cobra.Command, to *int64) {
	sizeVar(cmd.Flags(), to, "search-memory", "keep indexes of recordings in memory up to this size, e.g. 512M, for the next search (default 128M)")
}

// What becomes of sessions when systemd shuts the machine down.
const (
	shutdownSuspend = "suspend"
	shutdownEnd     = "end"
)

func shutdownFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "on-shutdown", cmp.Or(os.Getenv("DIAPAUSE_ON_SHUTDOWN"), shutdownSuspend),
		"when systemd shuts this machine down: suspend its sessions, which are resumed when it is up again, or let them end with it (DIAPAUSE_ON_SHUTDOWN)")
}

func advertiseFlags(cmd *cobra.Command, to *run.Direct) {
	cmd.Flags().StringVar(&to.Advertise, "advertise", os.Getenv("DIAPAUSE_ADVERTISE"),
		"take connections of `diapause forward` at this HOST:PORT, by TLS and for clients with a grant alone, rather than through NATS; off if empty (DIAPAUSE_ADVERTISE)")
	cmd.Flags().StringVar(&to.Listen, "advertise-listen", os.Getenv("DIAPAUSE_ADVERTISE_LISTEN"),
		"the HOST:PORT to listen at, if it isn't the one that clients dial, as behind NAT or a proxy of TCP (default --advertise) (DIAPAUSE_ADVERTISE_LISTEN)")
}

// checkAdvertised refuses addresses that no client can dial.
func checkAdvertised(d run.Direct) error {
	if d.Advertise == "" {
		if d.Listen != "" {
			return usagef("--advertise-listen %q: say with --advertise what clients dial", d.Listen)
		}
		return nil
	}
	host, port, err := net.SplitHostPort(d.Advertise)
	_, number := strconv.ParseUint(port, 10, 16)
	if a, parse := netip.ParseAddr(host); err != nil || number != nil || host == "" || parse == nil && a.IsUnspecified() {
		return usagef("--advertise %q: want the HOST:PORT that clients dial, e.g. 10.0.0.7:7443", d.Advertise)
	}
	return nil
}

func dockerFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "docker", os.Getenv("DIAPAUSE_DOCKER"),
		"the Docker engine whose containers can be sessions, unix:///path/of/its/socket, or none (default: "+docker.DefaultEngine+", if that is there) (DIAPAUSE_DOCKER)")
}
