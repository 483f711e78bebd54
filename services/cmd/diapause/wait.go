package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/diapause/diapause/schemas"
)

const waitHelp = `Wait until a session has ended by itself or failed, or is in the --state that is asked
for, and print how it is then. Waiting is looking: it keeps nothing awake.

Without --timeout it waits for as long as that takes; exit code 5 says that the time
was too short, 3 that the session was removed meanwhile.`

func waitCommand(c *client) *cobra.Command {
	var wanted []string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "wait NAME", Short: "Wait until a session has ended, or is in a state", Long: waitHelp, Args: cobra.ExactArgs(1),
		Example: "  diapause wait build && diapause logs build\n  diapause wait --state suspended --timeout 5m work",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkStates(wanted); err != nil {
				return err
			}
			v, err := c.until(cmd.Context(), args[0], wanted)
			if err != nil {
				return err
			}
			return printOutcome(v, asJSON)
		},
	}
	cmd.Flags().StringSliceVar(&wanted, "state", []string{string(schemas.Exited), string(schemas.Failed)}, "which to wait for; several with commas")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the session as JSON")
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(states(), cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

// lookAgain is how soon a session is looked at again without news of it: those may be lost.
const lookAgain = 5 * time.Second

// until waits for a session to be in one of the states.
func (c *client) until(ctx context.Context, name string, wanted []string) (v schemas.View, err error) {
	n, err := schemas.ParseName(name)
	if err != nil {
		return v, usageError{err}
	}
	limit := c.timeout
	c.timeout = 0 // that of each look is another
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	nc, err := c.connect(ctx)
	if err != nil {
		return v, err
	}
	defer nc.Close()
	news := make(chan *nats.Msg, 1)
	sub, err := nc.Subscribe(schemas.SubjectSession+"."+n.Key(), func(m *nats.Msg) {
		select {
		case news <- m:
		default: // the next look sees what this one would
		}
	})
	if err != nil {
		return v, fmt.Errorf("follow session %s: %w", n, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection closes next
	for {
		if err := c.callOn(ctx, nc, "show", schemas.Request{Name: name}, &v); err != nil && ctx.Err() == nil {
			return v, err
		}
		if ctx.Err() == nil && slices.Contains(wanted, string(v.State)) {
			return v, nil
		}
		select {
		case <-news:
		case <-time.After(lookAgain):
		case <-ctx.Done():
		}
		switch {
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return v, &schemas.APIError{Code: schemas.CodeTimeout, Text: fmt.Sprintf("session %s is %s and not %s after %s", name, v.State, strings.Join(wanted, " or "), limit)}
		case ctx.Err() != nil:
			return v, errInterrupted
		}
	}
}
