package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/diapause/diapause/schemas"
)

const redactHelp = `Take out of a session's recording all that a regular expression matches: of what was printed and typed, of the
texts of commands, and of screens. Each character is replaced by an asterisk or another of its size, so that times and
positions stay. What was stored is deleted, with all its versions in a bucket that keeps them.

The expression is in the syntax of Go; ^ and $ are the ends of a line. It is matched against the text, without escape
sequences and line breaks of the terminal. It is kept nowhere, and neither is what it matched: the history has who it was
and how many matches there were. As an argument it is in the history of your shell, so --match - reads it from the input.

A session that runs isn't stopped, and no session is resumed. Snapshots hold the memory of the session, and can't be
rewritten: those that may have the text are named. So are exports that were made before: they aren't known.`

func redactCommand(c *client) *cobra.Command {
	var r schemas.RedactRequest
	var reason string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "redact NAME", Short: "Take something out of a session's recording", Long: redactHelp, Args: cobra.ExactArgs(1),
		Example: "  diapause redact work --match 'hunter2' --dry-run\n  diapause redact work --match - < expression",
		RunE: func(cmd *cobra.Command, args []string) error {
			if r.Match == fromInput {
				line, err := readMatch()
				if err != nil {
					return err
				}
				r.Match = line
			}
			if _, err := r.Expression(); err != nil {
				return usagef("--%v", err)
			}
			var out schemas.Redacted
			if err := c.call(cmd.Context(), "redact", schemas.Request{Name: args[0], Reason: reason, Redact: &r}, &out); err != nil {
				return err
			}
			return answers{asJSON: asJSON}.print(out, func() { printRedacted(out) })
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&r.Match, "match", "", "what is to be taken out, as a regular `EXPRESSION`; - reads it from the input")
	fl.BoolVar(&r.DryRun, "dry-run", false, "say how much there is, and take nothing out")
	fl.StringVar(&reason, "reason", "", "kept in the session's history")
	fl.BoolVar(&asJSON, "json", false, jsonHelp)
	return cmd
}

// fromInput is the --match that is read from the input.
const fromInput = "-"

// maxMatch bounds what is read of the input.
const maxMatch = 64 << 10

// readMatch asks for the expression, or reads it from an input that is no terminal.
func readMatch() (string, error) {
	if fd := int(os.Stdin.Fd()); term.IsTerminal(fd) {
		fmt.Fprint(complained, "expression: ")
		b, err := term.ReadPassword(fd)
		fmt.Fprintln(complained)
		if err != nil {
			return "", fmt.Errorf("read the expression: %w", err)
		}
		return string(b), nil
	}
	line, err := bufio.NewReader(io.LimitReader(os.Stdin, maxMatch)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read the expression: %w", err)
	}
	return strings.TrimRight(line, "\r\n"), nil
}

func printRedacted(r schemas.Redacted) {
	was := "were redacted"
	if r.DryRun {
		was = "would be redacted"
	}
	fmt.Fprintf(printed, "session %s: %d matches, %d commands and %d on screens %s, in %d segments\n", r.Name, r.Matches, r.Commands, r.Screens, was, r.Segments)
	if r.Unreadable > 0 {
		fmt.Fprintf(complained, "%d parts of the recording can't be read, and are as they were\n", r.Unreadable)
	}
	if !r.Found() {
		return
	}
	if r.Running > 0 {
		fmt.Fprintf(complained, "command %d runs, and is noted with its text once more when it ends: redact again then\n", r.Running)
	}
	if len(r.Images) > 0 {
		fmt.Fprintf(complained, "these snapshots may have it in memory, on the screen and in the last output, and so has a session that goes on from one: %s\n", strings.Join(r.Images, ", "))
	}
	fmt.Fprintln(complained, "exports that were made before still have it, and so do forks and the memory of the session")
}
