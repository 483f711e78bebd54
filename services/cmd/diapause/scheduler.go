package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/run"
)

const schedulerHelp = `Decide which sessions are suspended and which are woken, and nothing else, until it
is interrupted: beside a "diapause up" that uses the same NATS server, whose own
scheduler is one, too.

One of them acts. The others stand by and know all that it knows: one takes over at
once when the one that acts is stopped, within some seconds when it dies. It needs no
root, no store and no data directory.`

// schedulerFlags are the flags of scheduler.
type schedulerFlags struct {
	nats    string
	name    string
	metrics string
	log     logging
}

func schedulerCommand(c *client) *cobra.Command {
	var f schedulerFlags
	cmd := &cobra.Command{
		Use: "scheduler", Short: "Decide, and stand by for others who do", Long: schedulerHelp, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.nats == "" {
				return usagef("scheduler: name the NATS server with --nats, and its credentials with --creds")
			}
			if f.name != "" && !schemas.ValidToken(f.name) {
				return usagef("--name %q: want 1 to 64 of A-Z a-z 0-9 _ -", f.name)
			}
			log, err := f.log.open()
			if err != nil {
				return err
			}
			return run.Scheduler(cmd.Context(), run.SchedulerConfig{
				Process: run.Process{Version: version, Metrics: f.metrics, Out: os.Stdout, Log: log},
				NATS:    run.NATS{URL: f.nats, Creds: c.creds}, Name: f.name,
			})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.nats, "nats", os.Getenv("DIAPAUSE_URL"), "the NATS server that the fleet uses, with --creds (DIAPAUSE_URL)")
	fl.StringVar(&f.name, "name", "", "who it is among the schedulers; a name of its own, the same after a restart (default the machine's and the process's)")
	metricsFlag(cmd, &f.metrics)
	f.log.flags(cmd)
	return cmd
}
