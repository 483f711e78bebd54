package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/janitor"
	"github.com/diapause/diapause/services/run"
)

const apiHelp = `Answer clients, place sessions, take over from lost hosts, prune snapshots and meter
usage, and nothing else, until it is interrupted: beside schedulers ("diapause
scheduler"), which decide, and hosts ("diapause worker"), which run sessions, on a NATS
server of your own. "diapause nats-streams" makes its streams.

More than one may run: each request is answered by one of them. It needs no root and no
data directory. "verify" reads images: that needs --identity-file. The keys of the log are read
beside the credentials, as "diapause nats-config" writes them: log.txt reads what was moved to the store,
with log.key it moves it.`

// apiFlags are the flags of api.
type apiFlags struct {
	upFlags
	name string
}

func apiCommand(c *client) *cobra.Command {
	var f apiFlags
	cmd := &cobra.Command{
		Use: "api", Short: "Answer clients, place sessions and keep house", Long: apiHelp, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conf, err := f.config(c)
			if err != nil {
				return err
			}
			if err := checkDefaultNetwork(f.network, cmd.Flags().Changed("network")); err != nil {
				return err
			}
			return run.API(cmd.Context(), conf)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.nats, "nats", os.Getenv("DIAPAUSE_URL"), "the NATS server that the fleet uses, with --creds (DIAPAUSE_URL)")
	fl.StringVar(&f.name, "name", "", "who it is in what it writes (default the machine's and the process's)")
	fl.StringVar(&f.store, "store", os.Getenv("DIAPAUSE_STORE"), "the store of the hosts' images: s3://BUCKET/PREFIX?endpoint=https://HOST or dir:///PATH (DIAPAUSE_STORE)")
	fl.StringArrayVar(&f.identities, "identity-file", nil, "age identities that open images, for `diapause verify`; none are needed for all else")
	retentionFlag(cmd, &f.retention)
	usageFlag(cmd, &f.usage)
	defaultNetworkFlag(cmd, &f.network)
	metricsFlag(cmd, &f.metrics)
	f.log.flags(cmd)
	return cmd
}

// config reads the flags.
func (f apiFlags) config(c *client) (conf run.APIConfig, err error) {
	switch {
	case f.nats == "":
		return conf, usagef("api: name the NATS server with --nats, and its credentials with --creds")
	case f.store == "":
		return conf, usagef("api: name the store that the hosts use with --store")
	case f.name != "" && !schemas.ValidToken(f.name):
		return conf, usagef("--name %q: want 1 to 64 of A-Z a-z 0-9 _ -", f.name)
	case f.usage < 0:
		return conf, usagef("--usage-every %s: want a time above 0, or 0 for never", f.usage)
	}
	log, err := f.log.open()
	if err != nil {
		return conf, err
	}
	conf = run.APIConfig{
		Process: run.Process{Version: version, Metrics: f.metrics, Out: os.Stdout, Log: log},
		NATS:    run.NATS{URL: f.nats, Creds: c.creds}, Name: f.name, Store: f.store, IdentityFiles: f.identities,
		Control: run.Control{Usage: f.usage, Network: f.network},
	}
	if conf.Control.Retention, err = janitor.ParsePolicy(f.retention); err != nil {
		return conf, usage(err)
	}
	return conf, nil
}
