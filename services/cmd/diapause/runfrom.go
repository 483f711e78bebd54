package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
)

// fromFlags are the flags of run that go with --from: what they don't say is as the other session has it.
var fromFlags = []string{"from", "name", "class", "idle", "by", "tty", "attach", "interactive", "detach", "no-wait", "json", "cwd", "workdir", "env", "label", "host"}

// runFrom starts a session as another one was run: its command, or another, in the directory that its terminal was in last and
// with its environment. Nothing of its memory and its files comes with that.
func runFrom(cmd *cobra.Command, c *client, f runFlags, command []string) error {
	var alien error
	cmd.LocalFlags().VisitAll(func(fl *pflag.Flag) {
		if fl.Changed && !slices.Contains(fromFlags, fl.Name) {
			alien = usagef("run: --%s doesn't go with --from", fl.Name)
		}
	})
	if f.name == "" {
		alien = usagef("run: give the session a name with --name, before the command")
	}
	if alien != nil {
		return alien
	}
	if err := f.terminal(); err != nil {
		return err
	}
	idle, err := parseIdle(f.idle)
	if err != nil {
		return err
	}
	var told bytes.Buffer
	v, err := c.kept(cmd.Context(), f.from, attach.History{Spec: true}, attach.Streams{Stdout: &told, Stderr: complained})
	if v.Origin != nil && v.Origin.Imported != "" {
		return schemas.StateError(schemas.ReasonExited, "session %s was imported: it never ran here", v.Name).
			WithHint("it has no command to start again: `diapause run --name %s -- COMMAND` starts one", f.name)
	}
	if err != nil {
		return err
	}
	if v.Desktop != nil {
		return usagef("run --from %s: it is a desktop", f.from).WithHint("`diapause fork %s %s` makes a second one", f.from, f.name)
	}
	var spec schemas.Spec
	if err := json.Unmarshal(told.Bytes(), &spec); err != nil {
		return fmt.Errorf("read how session %s is run: %w", f.from, err)
	}
	if err := f.over(&spec, command); err != nil {
		return err
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("encode the command: %w", err)
	}
	r := schemas.RunRequest{
		Class: v.Class, Driver: v.Driver, MadeBy: f.by, Idle: idle, TTY: spec.TTY, OnLoss: v.OnLoss, Host: schemas.HostID(f.host), Placement: v.Placement, Program: program(spec.Command, spec), Spec: data, NoWait: f.noWait,
	}
	if f.class != "" {
		r.Class = f.class
	}
	return c.started(cmd.Context(), f, r)
}

// over has a session be run otherwise than the one that it is made from, where the flags say so. It publishes no ports: they are that
// one's.
func (f runFlags) over(s *schemas.Spec, command []string) error {
	if len(s.Options) > 0 {
		return usagef("run --from %s: it is no process tree", f.from).WithHint("`diapause fork %s NEW` makes a second container", f.from)
	}
	if len(command) > 0 {
		s.Command = command
	}
	if f.dir != "" {
		s.Dir = f.dir
	}
	extra, err := environment(nil, f.env)
	if err != nil {
		return err
	}
	for _, e := range extra {
		k, _, _ := strings.Cut(e, "=")
		s.Env = append(slices.DeleteFunc(s.Env, func(had string) bool { return strings.HasPrefix(had, k+"=") }), e)
	}
	s.Publish, s.TTY = nil, s.TTY || f.tty
	if s.TTY {
		if cols, rows, err := term.GetSize(int(os.Stdin.Fd())); err == nil {
			s.Cols, s.Rows = uint16(cols), uint16(rows)
		}
	}
	if len(f.labels) > 0 {
		if s.Labels, err = runLabels(f.labels, false); err != nil {
			return err
		}
	}
	return nil
}

// started starts a session, and prints what became of it or uses its terminal.
func (c *client) started(ctx context.Context, f runFlags, r schemas.RunRequest) error {
	var v schemas.View
	if err := c.call(ctx, "run", schemas.Request{Name: f.name, Run: &r}, &v); err != nil {
		return err
	}
	if f.attach {
		printWarnings(v)
		return c.attach(ctx, f.name, typist(f.by))
	}
	return answers{asJSON: f.asJSON}.print(v, func() {
		printOutcome(v)
		printWarnings(v)
		printReach(v)
		if v.Desktop != nil && v.State == schemas.Running {
			fmt.Fprintf(printed, "it is a desktop: %s\n", desktopLine(v))
		}
	})
}
