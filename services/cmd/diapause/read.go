package main

import (
	"cmp"
	"fmt"
	"os"
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

func table(header string, rows func(w *tabwriter.Writer)) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, header)
	rows(w)
	_ = w.Flush() // standard output is closed, then
}

func showCommand(c *client) *cobra.Command {
	return reading(c, "show", "show NAME", "Show a session", cobra.ExactArgs(1), func(v schemas.View) {
		line := func(k, format string, args ...any) { fmt.Printf("%-12s %s\n", k, fmt.Sprintf(format, args...)) }
		line("name", "%s", v.Name)
		line("state", "%s for %s", stateOf(v), ago(v.Since))
		line("program", "%s (%s, driver %s, made by %s)", v.Program, v.Class, v.Driver, v.MadeBy)
		line("host", "%s", v.Host)
		if v.State == schemas.Running {
			line("memory", "%s", memoryLine(v))
			line("idle", "%s", time.Duration(v.IdleSeconds*float64(time.Second)).Round(100*time.Millisecond))
		} else {
			line("memory", "0 B")
		}
		if v.Boot != "" {
			line("boot", "%s, generation %d", v.Boot, v.Generation)
		}
		if s := v.Snapshot; s != nil {
			line("snapshot", "%s of %s: %s captured, %s new, %s stored", s.ID, s.At.Format(time.RFC3339), size(s.LogicalBytes), size(s.NewBytes), size(s.StoredBytes))
		}
		t := v.LastTransition
		line("last", "%s by %s, %s ago: %s", t.Type, t.Actor, ago(t.At), t.Reason)
		if steps := stages(t.Stages); steps != "" {
			line("stages", "%s", steps)
		}
		if v.Op != "" {
			line("under way", "%s", cmp.Or(v.Underway, v.Op))
			if v.Op == schemas.OpProve {
				line("", "`diapause accept %s` keeps it, `diapause reject %s` puts back what was", v.Name, v.Name)
			}
		}
		if v.Exit != nil {
			line("exit", "status %d %s", v.Exit.Code, v.Exit.Reason)
		}
		if v.Failure != nil {
			line("failure", "%s: %s (%d in a row)", v.Failure.Op, v.Failure.Text, v.Failure.Count)
			if v.Failure.Open {
				line("breaker", "open: not suspended for idleness before `diapause suspend` works, or `suspend --reset`")
			}
		}
	})
}

func historyCommand(c *client) *cobra.Command {
	return reading(c, "history", "history NAME", "Show what happened to a session, and why", cobra.ExactArgs(1), func(all []schemas.TransitionView) {
		table("VERSION\tAT\tTRANSITION\tSTATE\tBY\tREASON", func(w *tabwriter.Writer) {
			for _, t := range all {
				reason := t.Reason
				if steps := stages(t.Stages); steps != "" {
					reason += " (" + steps + ")"
				}
				for _, j := range t.Joined {
					reason += "; asked for by " + j.Actor + " too: " + j.Reason
				}
				fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\n", t.Version, t.At.Format("2006-01-02T15:04:05.000Z07:00"), t.Type, t.State, t.Actor, reason)
			}
		})
	})
}

func explainCommand(c *client) *cobra.Command {
	return reading(c, "explain", "explain NAME", "Say why a session is, or isn't, suspended", cobra.ExactArgs(1), func(e schemas.Explanation) {
		fmt.Printf("session %s is %s: %s\n", e.Name, e.State, e.Text)
		for _, b := range e.Blockers {
			until := "until it ends"
			if !b.Until.IsZero() {
				until = "for " + time.Until(b.Until).Round(100*time.Millisecond).String()
			}
			fmt.Printf("  - %s (%s)\n", b.What, until)
		}
		fmt.Printf("last: %s by %s, %s ago: %s\n", e.Last.Type, e.Last.Actor, ago(e.Last.At), e.Last.Reason)
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
	cmd.AddCommand(&cobra.Command{
		Use: "rm NAME SNAPSHOT", Short: "Delete a snapshot that nothing goes on from", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var v schemas.View
			if err := c.call(cmd.Context(), "snapshot_rm", schemas.Request{Name: args[0], Snapshot: args[1]}, &v); err != nil {
				return err
			}
			fmt.Printf("snapshot %s of session %s is deleted\n", args[1], args[0])
			return nil
		},
	})
	return cmd
}

// audited is what the API answers to audit.
type audited struct {
	Sessions    int      `json:"sessions"`
	Transitions int      `json:"transitions"`
	Problems    []string `json:"problems"`
}

func auditCommand(c *client) *cobra.Command {
	var verify bool
	var problems int
	cmd := reading(c, "audit", "audit --verify", "Fold the whole log and compare every record with it", cobra.NoArgs, func(a audited) {
		fmt.Println(count(a.Sessions, "session") + ", " + count(a.Transitions, "transition") + ", " + count(len(a.Problems), "problem"))
		for _, p := range a.Problems {
			fmt.Println("  - " + p)
		}
		problems = len(a.Problems)
	})
	cmd.Flags().BoolVar(&verify, "verify", false, "fold the log through the state machine")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if !verify {
			return usagef("audit: say --verify")
		}
		return nil
	}
	cmd.PostRunE = func(*cobra.Command, []string) error {
		if problems > 0 {
			return fmt.Errorf("the log doesn't give every record back: %s", count(problems, "problem"))
		}
		return nil
	}
	return cmd
}
