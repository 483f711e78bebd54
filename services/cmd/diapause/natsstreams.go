package main

import (
	"cmp"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/services/run"
)

const natsStreamsHelp = `Make the streams and buckets of a fleet on a NATS server of your own, or bring those
that are there up to date, and end. It takes the user "system" of "diapause nats-config",
whose credentials no part that runs needs then: schedulers, APIs and workers find the
streams there.

--replicas 3 has three servers of a cluster keep each of them. Servers that are still
finding each other are waited for, as long as --timeout says.`

func natsStreamsCommand(c *client) *cobra.Command {
	var nats string
	var replicas int
	var asJSON bool
	var log logging
	cmd := &cobra.Command{
		Use: "nats-streams", Short: "Make the streams of a fleet on a NATS server", Long: natsStreamsHelp, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if nats == "" {
				return usagef("nats-streams: name the NATS server with --nats, and its credentials with --creds")
			}
			if replicas < 1 || replicas > 5 || replicas%2 == 0 {
				return usagef("--replicas %d: want 1, 3 or 5", replicas)
			}
			to, err := log.open()
			if err != nil {
				return err
			}
			made, err := run.Streams(cmd.Context(), run.StreamsConfig{
				Log: to, NATS: run.NATS{URL: nats, Creds: c.creds}, Replicas: replicas, Wait: cmp.Or(c.timeout, 2*time.Minute),
			})
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(made)
			}
			for _, s := range made {
				fmt.Fprintf(printed, "%s, replicas: %d\n", s.Name, s.Replicas)
			}
			return nil
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&nats, "nats", os.Getenv("DIAPAUSE_URL"), "the NATS server that the fleet uses, with --creds (DIAPAUSE_URL)")
	fl.IntVar(&replicas, "replicas", 1, "how many servers keep each stream: 1, 3 or 5")
	fl.BoolVar(&asJSON, "json", false, "print JSON")
	log.flags(cmd)
	return cmd
}
