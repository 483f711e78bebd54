package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/triggers"
	"github.com/diapause/diapause/services/usage"
)

// meter makes what follows the log to say what was used, and who acts on what agents say.
func (p *parts) meter(js jetstream.JetStream, names stream.Names, records *statekv.Store, host schemas.HostID, m gauges, log *slog.Logger) {
	p.agents = triggers.New(triggers.Options{
		JS: js, Names: names, To: p.api, Count: m.Triggered, Log: log,
		Wanted: func(r schemas.SessionRecord) schemas.Triggers {
			return p.policies.For(r).Checkpoints
		},
	})
	p.usage = &usage.Publisher{Log: usage.Log{JS: js, Names: names, Records: records}, Actor: "usage@" + string(host), Notes: log}
}

// once gives a part that begins when another is ready: what it asks of that is known then.
func once(ready <-chan struct{}, serve func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-ready:
			return serve(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

func usageFlag(cmd *cobra.Command, every *time.Duration) {
	cmd.Flags().DurationVar(every, "usage-every", time.Hour, "how often to publish what each session used, on diapause.v1.event.<tenant>.<session>.usage; 0 for never")
}

const triggerHelp = `Say what an agent is doing in a session: run_start, run_end, before or after an --action,
or manual. If the session's policy wants it, a checkpoint is made while the session runs
on, with the trigger, --run-id and --reason in the snapshot ("diapause snapshots NAME").
Nothing waits for it. Any program may say the same, without credentials:

  nats pub diapause.v1.activity.default.work.agent.run_start '{"run_id":"r-17"}'`

func triggerCommand(c *client) *cobra.Command {
	var a schemas.Activity
	cmd := &cobra.Command{
		Use: "trigger NAME TRIGGER", Short: "Say what an agent is doing, which may make a checkpoint", Long: triggerHelp, Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !schemas.Trigger(args[1]).Known() {
				return usagef("trigger %q: want run_start, run_end, before, after or manual", args[1])
			}
			a.By = who()
			v, err := c.tell(cmd.Context(), args[0], schemas.KindAgent, args[1], a)
			if err != nil {
				return err
			}
			told(v, args[1]+" was published; `diapause history "+v.Name+"` shows the checkpoint if its policy wants one")
			return nil
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&a.RunID, "run-id", "", "of the agent's run")
	fl.StringVar(&a.Action, "action", "", "that it is about to take, or took")
	fl.StringVar(&a.Reason, "reason", "", "a description of the snapshot")
	return cmd
}
