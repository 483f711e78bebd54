package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/services/export"
)

func exportCommand(c *client) *cobra.Command {
	form := export.Asciicast
	var since time.Duration
	cmd := &cobra.Command{
		Use: "export NAME", Short: "Print the recording of a session's terminal, for a player or other programs", Args: cobra.ExactArgs(1),
		Example: "  diapause export work > work.cast    # asciinema play work.cast\n  diapause export --format text work",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(export.Forms, form) {
				return usagef("--format %q: want %s", form, strings.Join(export.Forms, ", "))
			}
			shown := attach.History{Events: true}
			if since < 0 {
				return usagef("--since %v: want how long ago, e.g. 2h", since)
			}
			if since > 0 {
				shown.Since = time.Now().Add(-since)
			}
			return c.export(cmd.Context(), args[0], form, shown)
		},
	}
	cmd.Flags().StringVar(&form, "format", form, "asciicast (version 3), text or html for all lines as they read on a terminal, or jsonl for all events with their times")
	durationVar(cmd.Flags(), &since, "since", 0, "what was recorded in the last `DURATION`, e.g. 2h")
	return cmd
}

// export prints a recording.
func (c *client) export(ctx context.Context, name, form string, shown attach.History) error {
	return c.exportTo(ctx, name, form, shown, printed)
}

// exportTo writes a recording in a form. What ends early is written up to there.
func (c *client) exportTo(ctx context.Context, name, form string, shown attach.History, to io.Writer) error {
	shown.Framed = shown.Framed || export.Framed(form)
	out := &gathered{to: to}
	w := export.New(form, name, out)
	err := c.eachEvent(ctx, name, shown, complained, w.Event)
	if err == nil {
		err = w.End()
	}
	return errors.Join(err, out.flush())
}
