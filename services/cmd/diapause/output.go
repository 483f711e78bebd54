package main

import (
	"errors"
	"os"
	"strconv"
	"strings"

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
			number, err := commandNumber("output", args[0], args[1])
			if err != nil {
				return err
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

// commandNumber reads the number of a command of a session, as "diapause commands" lists it: 12 or #12.
func commandNumber(verb, name, text string) (int64, error) {
	number, err := strconv.ParseInt(strings.TrimPrefix(text, "#"), 10, 64)
	if err != nil || number < 1 {
		return 0, usagef("%s: %.40q is no number of a command", verb, text).WithHint("`diapause commands %s` lists them", name)
	}
	return number, nil
}
