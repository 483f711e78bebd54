package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/schemas"
)

func readCommands(c *client) []*cobra.Command {
	return []*cobra.Command{lsCommand(c), showCommand(c), waitCommand(c), historyCommand(c), explainCommand(c), snapshotsCommand(c), auditCommand(c)}
}

// reading makes a command that asks one verb and prints the answer as JSON or
// for a person.
func reading[T any](c *client, verb, use, short string, args cobra.PositionalArgs, print func(T)) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: use, Short: short, Args: args,
		RunE: func(cmd *cobra.Command, args []string) error {
			var req schemas.Request
			if len(args) > 0 {
				req.Name = args[0]
			}
			var out T
			if err := c.call(cmd.Context(), verb, req, &out); err != nil {
				return err
			}
			if asJSON {
				return printJSON(out)
			}
			print(out)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func table(header string, rows func(w *tabwriter.Writer)) { tableTo(printed, header, rows) }

func tableTo(out io.Writer, header string, rows func(w *tabwriter.Writer)) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, header)
	rows(w)
	_ = w.Flush() // standard output is closed, then
}

func historyCommand(c *client) *cobra.Command {
	return reading(c, "history", "history NAME", "Show what happened to a session, and why", cobra.ExactArgs(1), func(all []schemas.TransitionView) {
		table("VERSION\tAT\tTRANSITION\tSTATE\tBY\tREASON", func(w *tabwriter.Writer) {
			for _, t := range all {
				reason := t.Reason
				if steps := stages(t.Stages); steps != "" {
					reason += " (" + steps + ")"
				}
				reason += joined(t.Joined)
				fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\n", t.Version, t.At.Format("2006-01-02T15:04:05.000Z07:00"), t.Type, t.State, schemas.Who(t.Actor, t.Note), reason)
			}
		})
	})
}

// joined says who else had asked for what a transition began.
func joined(all []schemas.Joined) (text string) {
	for _, j := range all {
		text += "; asked for by " + schemas.Who(j.Actor, j.Note)
		if j.Reason != "" {
			text += ": " + j.Reason
		}
	}
	return text
}

func explainCommand(c *client) *cobra.Command {
	return reading(c, "explain", "explain NAME", "Say why a session is, or isn't, suspended", cobra.ExactArgs(1), func(e schemas.Explanation) {
		fmt.Fprintf(printed, "session %s is %s: %s\n", e.Name, e.State, e.Text)
		for _, b := range e.Blockers {
			until := " (until it ends)"
			switch {
			case !b.Until.IsZero():
				until = " (for " + time.Until(b.Until).Round(100*time.Millisecond).String() + ")"
			case b.Kind == schemas.WaitingRoom, b.Kind == schemas.WaitingQueue:
				until = "" // it says what it waits for
			}
			fmt.Fprintf(printed, "  - %s%s\n", b.What, until)
		}
		fmt.Fprintf(printed, "last: %s by %s, %s ago: %s\n", e.Last.Type, schemas.Who(e.Last.Actor, e.Last.Note), ago(e.Last.At), e.Last.Reason)
		printGrounds(e)
	})
}

func snapshotsCommand(c *client) *cobra.Command {
	cmd := reading(c, "snapshots", "snapshots NAME", "List a session's snapshots", cobra.ExactArgs(1), func(all []schemas.SnapshotView) {
		table("SNAPSHOT\tAT\tCAPTURED\tNEW\tSTORED\tRESTORED\tTRIGGER\tBY\tRUN\tDESCRIPTION", func(w *tabwriter.Writer) {
			for _, s := range all {
				id := s.ID
				if s.Head {
					id += " *"
				}
				if s.Error != "" {
					fmt.Fprintf(w, "%s\t\t\t\t\t\t\t\t\tcan't be used: %s\n", id, s.Error)
					continue
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", id, s.At.Format(time.RFC3339), size(s.LogicalBytes), size(s.NewBytes), size(s.StoredBytes),
					count(s.Restores, "time"), s.Trigger, s.By, s.RunID, s.Description)
			}
		})
	})
	cmd.AddCommand(snapshotRemoveCommand(c))
	return cmd
}

func snapshotRemoveCommand(c *client) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "rm NAME SNAPSHOT", Short: "Delete a snapshot that nothing goes on from", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var v schemas.View
			if err := c.call(cmd.Context(), "snapshot_rm", schemas.Request{Name: args[0], Snapshot: args[1]}, &v); err != nil {
				return err
			}
			return answers{asJSON: asJSON}.print(v, func() {
				fmt.Fprintf(printed, "snapshot %s of session %s is deleted\n", args[1], args[0])
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the session as JSON")
	return cmd
}

// audited is what the API answers to audit.
type audited struct {
	Sessions    int      `json:"sessions"`
	Transitions int      `json:"transitions"`
	Problems    []string `json:"problems"`
}

func auditCommand(c *client) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "audit", Short: "Fold the whole log and compare every record with it", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var a audited
			if err := c.call(cmd.Context(), "audit", schemas.Request{}, &a); err != nil {
				return err
			}
			if err := (answers{asJSON: asJSON}).print(a, func() { printAudit(a) }); err != nil {
				return err
			}
			if len(a.Problems) > 0 {
				return answered{fmt.Errorf("the log doesn't give every record back: %s", count(len(a.Problems), "problem"))}
			}
			return nil
		},
	}
	cmd.Flags().Bool("verify", true, "what it does in any case")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printAudit(a audited) {
	fmt.Fprintln(printed, count(a.Sessions, "session")+", "+count(a.Transitions, "transition")+", "+count(len(a.Problems), "problem"))
	for _, p := range a.Problems {
		fmt.Fprintln(printed, "  - "+p)
	}
}
