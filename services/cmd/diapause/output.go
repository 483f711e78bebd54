package main

import (
	"errors"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/events/attach"
)

func outputCommand(c *client) *cobra.Command {
	var raw bool
	cmd := &cobra.Command{
		Use: "output NAME NUMBER", Short: "Print what one command printed in a session's recorded terminal", Args: cobra.ExactArgs(2),
		Long: `Print what the command with a NUMBER of "diapause commands" printed, as plain text, each line as
it was at its end. What a program showed on the whole screen, as editors do, isn't part of that. It
doesn't resume a session, and counts as no use of it.`,
		Example: "  diapause output work 12\n  diapause output --raw work 12 > output.txt",
		RunE: func(cmd *cobra.Command, args []string) error {
			number, err := strconv.ParseInt(args[1], 10, 64)
			if err != nil || number < 1 {
				return usagef("output: %.40q is no number of a command", args[1]).WithHint("`diapause commands %s` lists them", args[0])
			}
			text := &textOnly{to: printed}
			s := attach.Streams{Stdout: text, Stderr: complained}
			if raw {
				s.Stdout = os.Stdout
			}
			_, err = c.kept(cmd.Context(), args[0], attach.History{Command: number}, s)
			return errors.Join(text.end(), err)
		},
	}
	cmd.Flags().BoolVar(&raw, "raw", false, "as it was printed, with all escape sequences")
	return cmd
}
