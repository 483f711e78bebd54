package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/schemas"
)

func showCommand(c *client) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "show NAME...", Short: "Show a session", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			shown := 0
			return forEach(cmd.Context(), args, asJSON, func(name string, a answers) error {
				var v schemas.View
				if err := c.call(cmd.Context(), "show", schemas.Request{Name: name}, &v); err != nil {
					return err
				}
				return a.print(v, func() {
					if shown++; shown > 1 {
						fmt.Fprintln(printed)
					}
					printSession(v)
				})
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, jsonHelp)
	return cmd
}

// networkLine says which network a session has, and what it reaches if that isn't all.
func networkLine(v schemas.View) string {
	switch {
	case v.Network == schemas.NetworkHost:
		return v.Network + ", shared: it reaches what listens on the host's loopback"
	case len(v.AllowOut) == 0:
		return v.Network
	case slices.Equal(v.AllowOut, []string{"none"}):
		return v.Network + ", out to nothing"
	default:
		return v.Network + ", out to " + strings.Join(v.AllowOut, ", ")
	}
}

// listensLine says which ports a session takes connections at, and how those are reached that aren't
// ports of the host.
func listensLine(v schemas.View) string {
	var ports, closed []string
	for _, p := range v.Listens {
		port := fmt.Sprint(p)
		ports = append(ports, port)
		published := slices.ContainsFunc(v.Publish, func(s string) bool { return strings.HasSuffix(s, ":"+port) })
		if v.Network != schemas.NetworkHost && !published {
			closed = append(closed, port)
		}
	}
	text := strings.Join(ports, ", ")
	if len(closed) > 0 && v.Network != "" { // else it may be the host's
		text += fmt.Sprintf(" (`diapause forward %s %s`)", v.Name, strings.Join(closed, " "))
	}
	return text
}

// printSession shows all of a session.
func printSession(v schemas.View) {
	line := func(k, format string, args ...any) {
		fmt.Fprintf(printed, "%-12s %s\n", k, fmt.Sprintf(format, args...))
	}
	line("name", "%s", v.Name)
	line("state", "%s for %s", stateOf(v), ago(v.Since))
	line("program", "%s (%s, driver %s, made by %s)", v.Program, v.Class, v.Driver, v.MadeBy)
	printMade(line, v)
	line("host", "%s", cmp.Or(v.Host, "-"))
	if v.State == schemas.Running {
		line("memory", "%s", memoryLine(v))
		line("idle", "%s", span(idleFor(v)))
	} else {
		line("memory", "0 B")
	}
	if v.Disk > 0 {
		line("disk", "%s at most", size(v.Disk))
	}
	if p := v.Pause; p != nil {
		line("pause", "%s, since %s", cmp.Or(string(p.Reason), "for a reason that isn't known"), p.At.Format(time.RFC3339))
	}
	if v.Archived != nil {
		printArchived(line, v)
	}
	if v.Boot != "" {
		line("boot", "%s, generation %d", v.Boot, v.Generation)
	}
	if s := v.Snapshot; s != nil {
		line("snapshot", "%s of %s, %s ago: %s captured, %s new, %s stored", s.ID, s.At.Format(time.RFC3339), ago(s.At), size(s.LogicalBytes), size(s.NewBytes), size(s.StoredBytes))
	}
	if v.StoredBytes > 0 {
		by := "all its snapshots"
		if v.Snapshot == nil {
			by = "what is kept of it"
		}
		line("stored", "%s by %s", size(v.StoredBytes), by)
	}
	t := v.LastTransition
	line("last", "%s by %s, %s ago: %s", t.Type, schemas.Who(t.Actor, t.Note), ago(t.At), t.Reason)
	if steps := stages(t.Stages); steps != "" {
		line("stages", "%s", steps)
	}
	for i, w := range v.Warnings {
		title := "warnings"
		if i > 0 {
			title = ""
		}
		line(title, "%s", w.Text)
	}
	if v.Notice != nil {
		printNotice(line, v)
	}
	if v.Op != "" {
		line("under way", "%s", cmp.Or(v.Underway, v.Op))
		if v.Op == schemas.OpProve {
			line("", "`diapause accept %s` keeps it, `diapause reject %s` puts back what was", v.Name, v.Name)
		}
	}
	if q := v.Queue; q != nil {
		line("queue", "%s", q)
	}
	if v.Exit != nil {
		line("exit", "status %d %s", v.Exit.Code, v.Exit.Reason)
	}
	if f := v.Failure; f != nil {
		printFailure(line, f)
	}
}

// printArchived shows since when a session is archived, and how to go on with it.
func printArchived(line func(k, format string, args ...any), v schemas.View) {
	a := v.Archived
	line("archived", "at %s, %s", a.At.Format(time.RFC3339), archivedFor(a.For))
	if !a.Dropped.IsZero() {
		line("", "its memory and files were dropped at %s; `diapause run --from %s --name NEW` starts a new one", a.Dropped.Format(time.RFC3339), v.Name)
	} else if v.State != schemas.Exited {
		line("", "`diapause resume %s` takes it out of the archive", v.Name)
	}
}

// printMade shows what a session was made of and what it may do.
func printMade(line func(k, format string, args ...any), v schemas.View) {
	if c := v.Container; c != nil {
		line("image", "%s", c.Image)
		line("container", "%s", c.Name)
		if len(c.Ports) > 0 {
			line("ports", "%s", strings.Join(c.Ports, ", "))
		}
	}
	if o := v.Origin; o != nil && o.Imported != "" {
		line("origin", "imported from %s", o.Imported)
	} else if o != nil {
		line("origin", "%s", originText(o))
	}
	if len(v.Labels) > 0 {
		line("labels", "%s", schemas.LabelText(v.Labels))
	}
	if r := v.Root; r != nil {
		line("root", "%s", strings.TrimSuffix(r.Ref+" "+r.Digest, " "))
	}
	if v.Network != "" {
		line("network", "%s", networkLine(v))
	}
	if v.Desktop != nil {
		line("desktop", "%s", desktopLine(v))
	}
	if len(v.Publish) > 0 {
		line("ports", "%s", strings.Join(v.Publish, ", "))
	}
	for i, e := range v.Exposed {
		title := "exposed"
		if i > 0 {
			title = ""
		}
		line(title, "port %d, %s", e.Port, accessOf(e.Access))
	}
	for i, s := range v.Shares {
		title := "shared"
		if i > 0 {
			title = ""
		}
		line(title, "%s until %s by %s, %d watching", s.ID, s.Until.Format(time.RFC3339), s.By, s.Watching)
	}
	if len(v.Listens) > 0 {
		line("listens", "%s", listensLine(v))
	}
	if p := v.Placement; p != nil {
		line("placement", "%s", placementLine(p))
	}
	for _, what := range v.Loosened {
		line("allowed", "%s", what)
	}
}

// printFailure shows why the last operation failed, and what it stops.
func printFailure(line func(k, format string, args ...any), f *schemas.Failure) {
	line("failure", "%s: %s (%d in a row)", f.Op, f.Text, f.Count)
	if f.Hint != "" {
		line("", "%s", f.Hint)
	}
	if f.Open {
		line("breaker", "open: not suspended for idleness before `diapause suspend` works, or `suspend --reset`")
	}
}
