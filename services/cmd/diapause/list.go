package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/schemas"
)

// lsFlags are the flags of ls.
type lsFlags struct {
	quiet, asJSON, watch bool
	all, archived        bool
	tenant               string
	states, labels       []string
}

func lsCommand(c *client) *cobra.Command {
	var f lsFlags
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list", "ps"}, Short: "List the sessions", Args: cobra.NoArgs,
		Example: "  diapause ls --state suspended\n  diapause ls -q --tenant acme | xargs -n1 diapause suspend",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkStates(f.states); err != nil {
				return err
			}
			if f.tenant != "" && !schemas.ValidToken(f.tenant) {
				return usagef("--tenant %q: want 1 to 64 letters, digits, - or _", f.tenant)
			}
			if f.watch {
				return f.follow(cmd.Context(), c)
			}
			all, err := f.list(cmd.Context(), c, nil)
			if err != nil {
				return err
			}
			return f.print(all)
		},
	}
	fl := cmd.Flags()
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "print names alone")
	fl.BoolVarP(&f.all, "all", "a", false, "those in the archive as well; those that are suspended or have ended are listed in any case")
	fl.BoolVar(&f.archived, "archived", false, "only those in the archive")
	fl.StringSliceVar(&f.states, "state", nil, "only those that are running, suspended, … ; several with commas")
	fl.StringVar(&f.tenant, "tenant", "", "only those of this tenant")
	fl.StringArrayVar(&f.labels, "label", nil, "only those with this label: K=V, or `K` with any value; several times for all of them")
	fl.BoolVarP(&f.watch, "watch", "w", false, "go on: show the table as it changes on a terminal, else print each session that changes; with --json on a line of its own")
	fl.BoolVar(&f.asJSON, "json", false, "print JSON")
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(states(), cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

// list asks for the sessions, over a connection if there is one.
func (f lsFlags) list(ctx context.Context, c *client, api *events.API) (all []schemas.View, err error) {
	req := schemas.Request{Tenant: schemas.Tenant(f.tenant), List: &schemas.ListRequest{Archived: f.archive()}}
	if api == nil {
		err = c.call(ctx, "list", req, &all)
	} else {
		err = c.callOn(ctx, api, "list", req, &all)
	}
	return slices.DeleteFunc(all, func(v schemas.View) bool {
		return !f.has(v)
	}), err
}

// has reports whether a session is among those that are listed.
func (f lsFlags) has(v schemas.View) bool {
	return (len(f.states) == 0 || slices.Contains(f.states, string(v.State))) && schemas.Labelled(v.Labels, f.labels) &&
		f.archive().Has(v.Archived != nil)
}

// archive says what is listed of the archive.
func (f lsFlags) archive() schemas.ListArchived {
	switch {
	case f.archived:
		return schemas.ArchivedOnly
	case f.all:
		return ""
	}
	return schemas.ArchivedNone
}

// states are the words that a session's state may be.
func states() (words []string) {
	for _, s := range []schemas.State{schemas.Starting, schemas.Running, schemas.Suspending, schemas.Suspended, schemas.Resuming, schemas.Exited, schemas.Failed} {
		words = append(words, string(s))
	}
	return words
}

func checkStates(given []string) error {
	for _, s := range given {
		if !slices.Contains(states(), s) {
			return usagef("--state %q: want one of %s", s, strings.Join(states(), ", "))
		}
	}
	return nil
}

func (f lsFlags) print(all []schemas.View) error {
	switch {
	case f.asJSON:
		return printJSON(all)
	case f.quiet:
		for _, v := range all {
			fmt.Fprintln(printed, v.Name)
		}
		return nil
	}
	writeSessions(printed, all)
	return nil
}

// writeSessions writes the table of sessions.
func writeSessions(out io.Writer, all []schemas.View) {
	tableTo(out, "NAME\tSTATE\tFOR\tIDLE\tMEMORY\tSTORED\tBOOT\tCLASS\tPROGRAM", func(w *tabwriter.Writer) {
		for _, v := range all {
			idle, stored := "-", "-"
			if v.State == schemas.Running {
				idle = span(idleFor(v))
				if v.Failure != nil && v.Failure.Open {
					idle += " (breaker open)"
				}
			}
			if v.Snapshot != nil {
				stored = size(max(v.StoredBytes, v.Snapshot.StoredBytes)) // an older server knows the last one's alone
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
				v.Name, stateOf(v), ago(v.Since), idle, memory(v), stored, v.Boot, v.Class, v.Program)
		}
	})
}

// stateOf is a session's state, and what its container is where that isn't simply running.
func stateOf(v schemas.View) string {
	if v.Queue != nil && v.Host == "" {
		return string(v.State) + " (" + v.Queue.Standing() + ")"
	}
	if v.Status == "" {
		return string(v.State)
	}
	if v.Archived != nil && !v.Archived.Dropped.IsZero() {
		return string(v.State) + " (" + v.Status + ", memory dropped)"
	}
	return string(v.State) + " (" + v.Status + ")"
}

// seen reports whether a session's host has looked at it since it began to run; a host that
// is gone says nothing either.
func seen(v schemas.View) bool { return v.State != schemas.Running || v.PID > 0 || v.Status != "" }

func memory(v schemas.View) string {
	if !seen(v) {
		return "-"
	}
	return size(v.RSSBytes)
}

func memoryLine(v schemas.View) string {
	if !seen(v) {
		return "not known yet"
	}
	return fmt.Sprintf("%s in %s, leader pid %d", size(v.RSSBytes), count(v.Processes, "process"), v.PID)
}
