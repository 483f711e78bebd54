package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/events/attach"
	emulator "github.com/diapause/diapause/events/screen"
	"github.com/diapause/diapause/schemas"
)

// fewCommands is how many are listed unless more are asked for.
const fewCommands = 1000

func commandsCommand(c *client) *cobra.Command {
	var lines int
	var exit string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "commands NAME", Short: "List the commands that were typed in a session's recorded terminal", Args: cobra.ExactArgs(1),
		Long: `List the commands that a shell ran in a session's recorded terminal, the last one at the
end: when, for how long, with what status, in what directory, and who typed, a person or
an agent. "diapause output" prints what one of them printed. It doesn't resume a session,
and counts as no use of it.

Shells say where commands begin and end by marks. Diapause has bash, zsh and fish print
them when it starts one as the command of a session whose terminal is recorded; fish 4 and
nushell print them by themselves, also within a session. A command that begins with a
space, or that bash doesn't put into its history, isn't recorded.`,
		Example: "  diapause commands work\n  diapause commands --exit nonzero work\n  diapause commands --json -n 1 work",
		RunE: func(cmd *cobra.Command, args []string) error {
			if lines < allLines {
				return usagef("--tail %d: want how many commands, or %d for all", lines, allLines)
			}
			if _, err := strconv.Atoi(exit); err != nil && exit != "" && exit != attach.Nonzero {
				return usagef("--exit %q: want a status, or %s", exit, attach.Nonzero)
			}
			all, more, v, err := c.commands(cmd.Context(), args[0], lines, exit)
			if err != nil {
				return err
			}
			if more && !cmd.Flags().Changed("tail") {
				fmt.Fprintf(complained, "there are more than these %d: `--tail %d` lists all\n", lines, allLines)
			}
			return answers{asJSON: asJSON}.print(all, func() {
				printCommands(all, v.State)
				if len(all) == 0 && exit == "" && lines != 0 {
					fmt.Fprintln(complained, "no commands were recorded: `run --tty` has those of a shell recorded")
				}
			})
		},
	}
	cmd.Flags().IntVarP(&lines, "tail", "n", fewCommands, "the last `COMMANDS` alone; -1 for all")
	cmd.Flags().StringVar(&exit, "exit", "", "those that ended with this `STATUS`, or with any but 0: nonzero")
	cmd.Flags().BoolVar(&asJSON, "json", false, jsonHelp)
	return cmd
}

// kept has what a session's host keeps written to the streams: commands, or the output of one.
func (c *client) kept(ctx context.Context, name string, h attach.History, s attach.Streams) (v schemas.View, err error) {
	api, err := c.connect(ctx)
	if err != nil {
		return v, err
	}
	defer api.Close()
	if err := c.callOn(ctx, api, "show", schemas.Request{Name: name}, &v); err != nil {
		return v, err
	}
	conn, err := dialHost(ctx, api, v, attach.Hello{Name: name})
	if err != nil {
		return v, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	err = attach.FetchKept(conn, h, s, func(c schemas.TypedCommand) {
		if goesOn(c, v.State) {
			fmt.Fprintf(complained, "command %d goes on: this is what it printed so far\n", c.Number)
		}
	})
	switch {
	case ctx.Err() != nil:
		err = errInterrupted
	case errors.Is(err, attach.ErrOlder):
		err = schemas.WithHint(fmt.Errorf("host %s: %w", v.Host, err), "install this version there, and start its worker again")
	case errors.Is(err, attach.ErrLost):
		err = schemas.WithHint(err, "it can be asked again")
	}
	return v, err
}

// commands gets the last commands of a session, the last one at the end, and whether there are more.
func (c *client) commands(ctx context.Context, name string, lines int, exit string) (all []schemas.TypedCommand, more bool, v schemas.View, err error) {
	if lines == 0 {
		return []schemas.TypedCommand{}, false, v, nil
	}
	h := attach.History{Commands: allLines}
	if exit == "" && lines > 0 && lines < math.MaxInt {
		h.Commands = lines + 1
	}
	answer, to := io.Pipe()
	fetched := make(chan error, 1)
	go func() {
		var err error
		v, err = c.kept(ctx, name, h, attach.Streams{Stdout: to, Stderr: complained})
		to.Close()
		fetched <- err
	}()
	all, more, err = lastCommands(answer, lines, exit)
	answer.CloseWithError(errEnough)
	if fetchErr := <-fetched; fetchErr != nil && !errors.Is(fetchErr, errEnough) {
		err = fetchErr
	}
	if err != nil {
		return nil, false, v, err
	}
	return all, more, v, nil
}

// commandOf gives one command of a session, by its number.
func (c *client) commandOf(ctx context.Context, name string, number int64) (command schemas.TypedCommand, err error) {
	answer, to := io.Pipe()
	fetched := make(chan error, 1)
	go func() {
		_, err := c.kept(ctx, name, attach.History{Commands: allLines}, attach.Streams{Stdout: to, Stderr: complained})
		to.Close()
		fetched <- err
	}()
	found := false
	for dec := json.NewDecoder(answer); !found; {
		if err = dec.Decode(&command); err != nil || command.Number < number { // the last one comes first
			break
		}
		found = command.Number == number
	}
	answer.CloseWithError(errEnough)
	if fetchErr := <-fetched; fetchErr != nil && !errors.Is(fetchErr, errEnough) {
		return command, fetchErr
	}
	switch {
	case found:
		return command, nil
	case err != nil && !errors.Is(err, io.EOF):
		return command, fmt.Errorf("read a command: %w", err)
	}
	return command, schemas.WithHint(fmt.Errorf("session %s has no command %d, or it wasn't kept", name, number), "`diapause commands %s` lists them", name)
}

// errEnough: no more of an answer is wanted.
var errEnough = errors.New("enough")

// lastCommands reads commands as a host sends them, the last one first, up to one more than so many.
func lastCommands(from io.Reader, lines int, exit string) (all []schemas.TypedCommand, more bool, err error) {
	all = []schemas.TypedCommand{}
	for dec := json.NewDecoder(from); !more; {
		var command schemas.TypedCommand
		err := dec.Decode(&command)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, false, fmt.Errorf("read a command: %w", err)
		}
		if !attach.ExitedWith(command, exit) {
			continue
		}
		if more = len(all) == lines; !more {
			all = append(all, command)
		}
	}
	slices.Reverse(all)
	return all, more, nil
}

func printCommands(all []schemas.TypedCommand, state schemas.State) {
	table("NUMBER\tSTARTED\tTOOK\tEXIT\tBY\tDIRECTORY\tCOMMAND", func(w *tabwriter.Writer) {
		for _, c := range all {
			took, exit := "-", "-"
			switch {
			case !c.Running():
				took = c.Ended.Sub(c.Began).Round(time.Millisecond).String()
			case goesOn(c, state):
				exit = "runs"
			}
			if c.Exit != nil {
				exit = strconv.Itoa(*c.Exit)
			}
			fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n", c.Number, c.Began.Local().Format(time.DateTime), took, exit, orDash(string(c.By)), orDash(inRow(c.Dir)), rowOf(c))
		}
	})
}

// goesOn reports whether a command of a session in a state hasn't ended.
func goesOn(c schemas.TypedCommand, state schemas.State) bool {
	return c.Running() && state != schemas.Exited && state != schemas.Failed && state != schemas.Deleted
}

// rowOf is a command's text in one row.
func rowOf(c schemas.TypedCommand) string {
	text := inRow(c.Text)
	if c.Cut {
		text += " ..."
	}
	return text
}

// inRow writes a text so that it takes one row, and one column of a table.
func inRow(text string) string {
	return strings.NewReplacer("\n", `\n`, "\t", " ", "\v", " ", "\f", " ").Replace(text)
}

// textOnly writes what was printed in a terminal as text.
type textOnly struct {
	to   io.Writer
	text emulator.Text
}

func (p *textOnly) Write(b []byte) (int, error) {
	if text := p.text.Write(b); len(text) > 0 {
		if _, err := p.to.Write(text); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// end writes the last line, which gets an end.
func (p *textOnly) end() error {
	text := p.text.End()
	if len(text) == 0 {
		return nil
	}
	_, err := p.to.Write(append(text, '\n'))
	return err
}
