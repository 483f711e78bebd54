package main

import (
	"github.com/spf13/cobra"

	"github.com/diapause/diapause/schemas"
)

const triggerHelp = `Say what an agent is doing in a session: run_start, run_end, before or after an --action,
or manual. If the session's policy wants it, a checkpoint is made while the session runs
on, with the trigger, --run-id and --reason in the snapshot ("diapause snapshots NAME").
Nothing waits for it. Any program may say the same, without credentials:

  nats pub diapause.v1.activity.default.work.agent.run_start '{"run_id":"r-17"}'`

func triggerCommand(c *client) *cobra.Command {
	var a schemas.Activity
	var asJSON bool
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
			return answers{asJSON: asJSON}.print(v, func() {
				told(v, args[1]+" was published; `diapause history "+v.Name+"` shows the checkpoint if its policy wants one")
			})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&a.RunID, "run-id", "", "of the agent's run")
	fl.StringVar(&a.Action, "action", "", "that it is about to take, or took")
	fl.StringVar(&a.Reason, "reason", "", "a description of the snapshot")
	fl.BoolVar(&asJSON, "json", false, "print the session as JSON")
	return cmd
}
