package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/datadir"
)

func downCommand(c *client) *cobra.Command {
	var suspend, kill, asJSON bool
	cmd := &cobra.Command{
		Use: "down [--suspend | --kill]", Short: "Stop the `diapause up` of a data directory", Args: cobra.NoArgs,
		Long: "Stop the `diapause up` of the data directory (--data). Sessions that run go on under\ntheir shims, and the next `diapause up` finds them; --suspend suspends those on its host\nfirst, --kill ends them. Those of other hosts aren't touched.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if suspend && kill {
				return usagef("down: --suspend keeps what runs, --kill ends it: leave one out")
			}
			a := answers{asJSON: asJSON, several: true}
			if err := down(cmd.Context(), c, suspend, kill, a); err != nil {
				return err
			}
			return a.print(map[string]bool{"stopped": true}, func() { fmt.Fprintln(printed, "stopped") })
		},
	}
	cmd.Flags().BoolVar(&suspend, "suspend", false, "suspend what runs on this host first")
	cmd.Flags().BoolVar(&kill, "kill", false, "end what runs on this host first")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: a session or an answer on each line")
	return cmd
}

func down(ctx context.Context, c *client, suspend, kill bool, a answers) error {
	up, err := datadir.Locate(c.data)
	if err != nil {
		return err
	}
	verb := ""
	if suspend {
		verb = "suspend"
	} else if kill {
		verb = "kill"
	}
	if verb != "" {
		its := *c
		its.url, its.creds = up.URL, cmp.Or(up.ClientCreds, c.creds) // and no other, even if one is set
		if err := its.each(ctx, verb, up.Host, a); err != nil {
			return fmt.Errorf("%w; `diapause up` was not stopped", err)
		}
	}
	if err := syscall.Kill(up.PID, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop process %d: %w", up.PID, err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for syscall.Kill(up.PID, 0) == nil {
		select {
		case <-ctx.Done():
			return fmt.Errorf("process %d is still stopping: %w", up.PID, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// each asks a verb of every session that runs on a host.
func (c *client) each(ctx context.Context, verb string, host schemas.HostID, a answers) error {
	var all []schemas.View
	if err := c.call(ctx, "list", schemas.Request{}, &all); err != nil {
		return err
	}
	var failed error
	for _, v := range all {
		if v.Host != host || v.State != schemas.Running && v.State != schemas.Suspending {
			continue
		}
		var out schemas.View
		if err := c.call(ctx, verb, schemas.Request{Name: v.Name, Reason: "down --" + verb}, &out); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		if err := a.outcome(out); err != nil {
			return err
		}
		if verb == "suspend" && !a.asJSON {
			printWarnings(out)
		}
	}
	return failed
}
