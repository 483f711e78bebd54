package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/diapause/diapause/schemas"
)

const templateHelp = `Keep the memory and files of a session as a template, and make sessions from it: "diapause run --template NAME".

A template is a copy with a key of its own: the session that it is made of may go on, be removed or shredded. It
never runs, is no session in "diapause ls", and is kept until it is removed. It is its tenant's, and no other one's.
Secrets that were in the session's memory and files are in every session that is made from it.`

func templateCommand(c *client) *cobra.Command {
	cmd := &cobra.Command{Use: "template", Short: "Keep a session's memory and files, to make sessions from", Long: templateHelp}
	cmd.AddCommand(templateCreateCommand(c), templateListCommand(c), templateShowCommand(c), templateRemoveCommand(c))
	return cmd
}

func templateCreateCommand(c *client) *cobra.Command {
	var from, snapshot, description, reason string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "create TEMPLATE --from SESSION", Short: "Make a template of a session, or of one of its snapshots", Args: cobra.ExactArgs(1),
		Example: "  diapause template create py --from work\n  diapause run --template py --name first",
		RunE: func(cmd *cobra.Command, args []string) error {
			if from == "" {
				return usagef("template create: name the session that it is made of with --from")
			}
			if _, err := schemas.ParseTemplate(args[0]); err != nil {
				return usage(err)
			}
			var v schemas.TemplateView
			req := schemas.Request{Name: from, To: args[0], Snapshot: snapshot, Description: description, Reason: reason}
			if err := c.call(cmd.Context(), "template_create", req, &v); err != nil {
				return err
			}
			return answers{asJSON: asJSON}.print(v, func() {
				fmt.Fprintf(printed, "template %s is made of %s: %s in %s\n", v.Name, originText(v.Origin), size(v.LogicalBytes), size(v.StoredBytes))
			})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&from, "from", "", "the `SESSION` that it is made of (required)")
	fl.StringVar(&snapshot, "snapshot", "", "the `SNAPSHOT` of the session, in place of what it is now")
	fl.StringVar(&description, "description", "", "kept with the image")
	fl.StringVar(&reason, "reason", "", "kept in the log")
	fl.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func templateListCommand(c *client) *cobra.Command {
	var tenant string
	var quiet, asJSON bool
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List templates", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all := []schemas.TemplateView{}
			if err := c.call(cmd.Context(), "template_ls", schemas.Request{Tenant: schemas.Tenant(tenant)}, &all); err != nil {
				return err
			}
			switch {
			case asJSON:
				return printJSON(all)
			case quiet:
				for _, v := range all {
					fmt.Fprintln(printed, v.Name)
				}
				return nil
			}
			table("NAME\tMADE\tOF\tMEMORY AND FILES\tSTORED\tDRIVER\tPROGRAM", func(w *tabwriter.Writer) {
				for _, v := range all {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", v.Name, v.Created.Format(time.RFC3339), originText(v.Origin), size(v.LogicalBytes), size(v.StoredBytes), v.Driver, v.Program)
				}
			})
			return nil
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&tenant, "tenant", "", "only those of this tenant")
	fl.BoolVarP(&quiet, "quiet", "q", false, "print names alone")
	fl.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func templateShowCommand(c *client) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "show TEMPLATE...", Short: "Show a template: what it is made of, its snapshot and its size", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			shown := 0
			return forEach(cmd.Context(), args, asJSON, func(name string, a answers) error {
				var v schemas.TemplateView
				if err := c.call(cmd.Context(), "template_show", schemas.Request{Name: name}, &v); err != nil {
					return err
				}
				return a.print(v, func() {
					if shown++; shown > 1 {
						fmt.Fprintln(printed)
					}
					printTemplate(v)
				})
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, jsonHelp)
	return cmd
}

// printTemplate shows all of a template.
func printTemplate(v schemas.TemplateView) {
	line := func(k, format string, args ...any) {
		fmt.Fprintf(printed, "%-12s %s\n", k, fmt.Sprintf(format, args...))
	}
	line("name", "%s", v.Name)
	state := string(v.State)
	if v.Waits != "" {
		state += ": " + v.Waits
	}
	line("state", "%s", state)
	line("program", "%s (%s, driver %s)", v.Program, v.Class, v.Driver)
	line("origin", "%s", originText(v.Origin))
	line("created", "%s", v.Created.Format(time.RFC3339))
	line("lineage", "%s", v.Lineage)
	line("snapshot", "%s", cmp.Or(v.Snapshot, "-"))
	if !v.At.IsZero() {
		line("captured", "%s", v.At.Format(time.RFC3339))
		line("size", "%s in %s", size(v.LogicalBytes), size(v.StoredBytes))
	}
	if v.Root != nil {
		line("root", "%s", strings.TrimSuffix(v.Root.Ref+" "+v.Root.Digest, " "))
	}
	if len(v.Labels) > 0 {
		line("labels", "%s", schemas.LabelText(v.Labels))
	}
}

func templateRemoveCommand(c *client) *cobra.Command {
	var reason string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "rm TEMPLATE...", Aliases: []string{"remove", "delete"}, Short: "Shred templates: their keys, then their images", Args: cobra.MinimumNArgs(1),
		Long: "Shred templates: their keys, then their images.\n\nSessions that were made from one go on. The image stays until each of them has one of its own: its next suspend or checkpoint writes it.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return forEach(cmd.Context(), args, asJSON, func(name string, a answers) error {
				var v schemas.TemplateView
				if err := c.call(cmd.Context(), "template_rm", schemas.Request{Name: name, Reason: reason}, &v); err != nil {
					return err
				}
				return a.print(v, func() {
					fmt.Fprintf(printed, "template %s is removed\n", v.Name)
					if v.State == schemas.TemplateRemoving {
						fmt.Fprintln(printed, v.Waits)
					}
				})
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "kept in the log")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the template as JSON; of several, one a line")
	return cmd
}

// originText says what something was made of.
func originText(o *schemas.Origin) string {
	switch {
	case o == nil:
		return "-"
	case o.Template != "":
		return fmt.Sprintf("template %s, of %s at %s", o.Template, o.Session, o.Snapshot)
	}
	return o.Session + " at " + o.Snapshot
}

// ofTemplate are the flags of run that a session from a template may have: all else is the template's.
var ofTemplate = []string{"template", "name", "publish", "attach", "detach", "json"}

// orTemplate has run take a template in place of a command.
func (f *runFlags) orTemplate(c *client, cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.template, "template", "", "in place of a command: go on from the memory and files of this `TEMPLATE`; with --name, --publish and --attach alone")
	args, run := cmd.Args, cmd.RunE
	cmd.Args = func(cmd *cobra.Command, words []string) error {
		if f.template != "" {
			return nil
		}
		return args(cmd, words)
	}
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		if f.template == "" {
			return run(cmd, words)
		}
		var other []string
		cmd.Flags().Visit(func(fl *pflag.Flag) {
			if cmd.InheritedFlags().Lookup(fl.Name) == nil && !slices.Contains(ofTemplate, fl.Name) {
				other = append(other, "--"+fl.Name)
			}
		})
		if len(words) > 0 {
			other = append(other, "the command")
		}
		return runTemplate(cmd.Context(), c, *f, other)
	}
}

// runTemplate makes a session from a template. other are the flags that it can't have.
func runTemplate(ctx context.Context, c *client, f runFlags, other []string) error {
	if len(other) > 0 {
		return usagef("run --template: leave %s out", strings.Join(other, ", ")).WithHint("a session from a template is run as the one that the template was made of")
	}
	n, err := schemas.ParseTemplate(f.template)
	if err != nil {
		return usage(err)
	}
	if err := f.terminal(); err != nil {
		return err
	}
	if f.name == "" {
		f.name, _ = n.Template()
		f.name += "-" + strings.ToLower(rand.Text()[:6])
	}
	var v schemas.View
	if err := c.call(ctx, "template_run", schemas.Request{Name: f.template, To: f.name, Publish: f.publish}, &v); err != nil {
		return err
	}
	if f.attach {
		printWarnings(v)
		return c.attach(ctx, v.Name, typist(f.by))
	}
	return answers{asJSON: f.asJSON}.print(v, func() {
		printOutcome(v)
		printWarnings(v)
		printReach(v)
	})
}
