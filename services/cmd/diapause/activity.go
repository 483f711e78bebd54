package main

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

func activityCommands(c *client) []*cobra.Command {
	return []*cobra.Command{touchCommand(c), holdCommand(c), releaseCommand(c)}
}

func touchCommand(c *client) *cobra.Command {
	var kind string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "touch NAME...", Short: "Say that a session is in use", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			k := schemas.Kind(kind)
			if !k.Known() || k.Lease() {
				return usagef("--kind %q: want input, exec, http, heartbeat or output", kind)
			}
			return c.tellEach(cmd.Context(), args, asJSON, k, "", schemas.Activity{By: who()}, string(k)+" was published")
		},
	}
	cmd.Flags().StringVar(&kind, "kind", "input", "input, exec, http, heartbeat or output")
	cmd.Flags().BoolVar(&asJSON, "json", false, jsonHelp)
	return cmd
}

// personal is the key of the hold that a person places at the command line.
const personal = "cli"

func holdCommand(c *client) *cobra.Command {
	var length time.Duration
	var reason string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "hold NAME... --for 2h --reason TEXT", Short: "Keep a session from being suspended for idleness", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("for") {
				return usagef("hold: say for how long with --for, e.g. --for 2h").WithHint("`diapause release %s` ends it earlier", args[0])
			}
			if length <= 0 || length > schemas.MaxLease {
				return usagef("hold: --for %s: want a time up to %s", length, schemas.MaxLease)
			}
			return c.tellEach(cmd.Context(), args, asJSON, schemas.KindHold, personal, schemas.Activity{TTL: schemas.Duration(length), Reason: reason, By: who()},
				"held until "+time.Now().Add(length).Format(time.RFC3339))
		},
	}
	durationVar(cmd.Flags(), &length, "for", 0, "how long, e.g. 2h or 7d")
	cmd.Flags().StringVar(&reason, "reason", "", "why: `TEXT` that diapause explain shows")
	cmd.Flags().BoolVar(&asJSON, "json", false, jsonHelp)
	return cmd
}

func releaseCommand(c *client) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "release NAME...", Short: "End a hold", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.tellEach(cmd.Context(), args, asJSON, schemas.KindHold, personal, schemas.Activity{Released: true, By: who()},
				"what `diapause hold` placed, if anything, is over")
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, jsonHelp)
	return cmd
}

// tellEach publishes activity of each of several sessions, and says so.
func (c *client) tellEach(ctx context.Context, names []string, asJSON bool, k schemas.Kind, key string, a schemas.Activity, what string) error {
	return forEach(ctx, names, asJSON, func(name string, answers answers) error {
		v, err := c.tell(ctx, name, k, key, a)
		if err != nil {
			return err
		}
		return answers.print(v, func() { told(v, what) })
	})
}

// tell publishes activity of a session that exists, and gives how that was just before.
func (c *client) tell(ctx context.Context, name string, k schemas.Kind, key string, a schemas.Activity) (v schemas.View, err error) {
	n, err := schemas.ParseName(name)
	if err != nil {
		return v, usage(err)
	}
	api, err := c.connect(ctx)
	if err != nil {
		return v, err
	}
	defer api.Close()
	if err := c.callOn(ctx, api, "show", schemas.Request{Name: name}, &v); err != nil {
		return v, err
	}
	js, err := jetstream.New(api.Conn())
	if err != nil {
		return v, fmt.Errorf("use JetStream: %w", err)
	}
	_, err = stream.Publisher{JS: js}.Activity(ctx, n, k, key, a)
	return v, err
}

// told says what activity was published of a session, which was as in v.
func told(v schemas.View, what string) {
	fmt.Fprintf(printed, "session %s, %s: %s\n", v.Name, stateOf(v), what)
}
