package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/natsconfig"
)

const natsConfigHelp = `Write the configuration of a nats-server (2.12 or newer) for a fleet into DIR: TLS
with an authority of its own, and a user for each part with the subjects that it needs
and no others. The seeds of the users are in DIR/creds, each with mode 0600; give each
part its own, and ca.pem beside it. Give api and "up --nats" log.txt as well, which opens the old
part of the log in the store, and api log.key, with which it moves it there. Keep DIR/tls/ca-key.pem and creds/system.nk away
from the fleet.

  system          makes the streams ("diapause nats-streams" needs it, and "diapause up
                  --nats"); may do everything
  scheduler       decides ("diapause scheduler")
  api             answers clients, places sessions, keeps house ("diapause api")
  worker-HOST     runs the sessions of that host
  gateway         wakes and opens sessions for people
  client          a person with the command line
  reader          looks, and hears what happens
  publisher       reports activity of every tenant
  publisher-NAME  reports activity of that tenant alone

With --cluster and --route, the servers of a cluster share the configuration, with TLS
between them; each is started with a --name of its own.

Run it again when hosts or tenants come and go: keys that are there stay. Then copy
DIR to the server and have it reload: nats-server --signal reload`

func natsConfigCommand() *cobra.Command {
	var o natsconfig.Options
	var tenants, hosts []string
	cmd := &cobra.Command{
		Use: "nats-config DIR", Short: "Write a configuration of nats-server, with users and TLS", Long: natsConfigHelp, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Dir, o.Names = args[0], stream.NamesWith("")
			for _, t := range tenants {
				o.Tenants = append(o.Tenants, schemas.Tenant(t))
			}
			for _, h := range hosts {
				o.Hosts = append(o.Hosts, schemas.HostID(h))
			}
			if len(o.DNSNames) == 0 {
				return usagef("name the server with --server-name, as clients do")
			}
			if err := cmp.Or(o.Validate(), o.Cluster.Validate()); err != nil {
				return usage(err)
			}
			return printNATSConfig(o)
		},
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&o.DNSNames, "server-name", nil, "a host name or address of the server, for its certificate; more than once for more")
	fl.StringArrayVar(&hosts, "host", nil, "a `HOST` with a worker, by the name in the file host of its data directory; more than once for more")
	fl.StringArrayVar(&tenants, "tenant", nil, "a tenant with a publisher of its own; more than once for more")
	fl.StringVar(&o.Listen, "listen", "0.0.0.0:4222", "where the server is to listen")
	fl.StringVar(&o.Monitor, "monitor", "", "where the server is to answer /healthz and show figures to anyone, without TLS; nowhere if empty")
	fl.StringVar(&o.Cluster.Name, "cluster", "", "the `NAME` of the cluster that several servers make")
	fl.StringVar(&o.Cluster.Listen, "cluster-listen", "0.0.0.0:6222", "where a server of the cluster is to listen for the others")
	fl.StringArrayVar(&o.Cluster.Routes, "route", nil, "`HOST:PORT` of a server of the cluster for the others; once for each")
	fl.StringVar(&o.Installed, "installed", "", "where DIR will be on the server; DIR if empty")
	fl.StringVar(&o.StoreDir, "streams", "/var/lib/nats", "where the server is to keep its streams")
	return cmd
}

func printNATSConfig(o natsconfig.Options) error {
	w, err := natsconfig.Write(o)
	if err != nil {
		return err
	}
	fmt.Fprintf(printed, "configuration: %s\n", w.Config)
	for _, file := range w.Creds {
		fmt.Fprintf(printed, "credentials:   %s\n", file)
	}
	for _, file := range w.Log {
		fmt.Fprintf(printed, "key of the log: %s\n", file)
	}
	for _, file := range w.Stale {
		fmt.Fprintf(printed, "not used:      %s belongs to no host or tenant that was named; remove it\n", file)
	}
	return nil
}
