package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/diapause/diapause/schemas"
)

// commandGroups are how the help lists the commands; those that aren't named come last.
var commandGroups = []struct{ id, title, commands string }{
	{"life", "Sessions:", "run desktop import adopt suspend resume ensure move checkpoint fork template rollback accept reject dismiss label archive share unshare redact kill rm"},
	{"inside", "Inside a session:", "attach exec logs commands output cp forward expose ingress"},
	{"look", "Looking, which never keeps awake or wakes:", "ls show history explain snapshots wait usage stats audit verify screen replay export diff search"},
	{"use", "Saying that a session is in use, or not:", "touch hold release busy trigger policy"},
	{"system", "Running Diapause:", "up down worker scheduler api gateway host doctor ready store key token login-link nats-config nats-streams"},
}

func group(root *cobra.Command) {
	for _, g := range commandGroups {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, name := range strings.Fields(g.commands) {
			if cmd, _, err := root.Find([]string{name}); err == nil && cmd != root {
				cmd.GroupID = g.id
			}
		}
	}
}

// strict has a command that is only there for those below it refuse words that it doesn't
// know, which would else be answered with its help and a status of success.
func strict(cmd *cobra.Command) {
	if !cmd.HasSubCommands() || cmd.Runnable() {
		return
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return noCommand(cmd, args[0])
		}
		return cmd.Help()
	}
}

// completing bounds what a shell waits for names.
const completing = time.Second

// completeName has a shell complete the NAME of a command by the sessions that there are.
func completeName(c *client, cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		completeName(c, sub)
	}
	words := strings.Fields(cmd.Use)
	if cmd.ValidArgsFunction != nil || len(words) < 2 || strings.Trim(words[1], "[].") != "NAME" {
		return
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 && !strings.HasSuffix(words[1], "...") {
			return nil, cobra.ShellCompDirectiveDefault
		}
		ctx, cancel := context.WithTimeout(context.Background(), completing)
		defer cancel()
		var all []schemas.View
		if err := c.call(ctx, "list", schemas.Request{}, &all); err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp // a shell has no use for the reason
		}
		var names []cobra.Completion
		for _, v := range all {
			names = append(names, cobra.CompletionWithDesc(v.Name, stateOf(v)+", "+v.Program))
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// flagGroup is a part of a command's flags, with a title of its own in the help.
type flagGroup struct {
	title string
	has   func(flag string) bool
}

// groupFlags lists flags of a command under the titles of their groups, and those of no
// group first.
func groupFlags(cmd *cobra.Command, groups []flagGroup) {
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		sets := make([]*pflag.FlagSet, len(groups)+1)
		for i := range sets {
			sets[i] = pflag.NewFlagSet("", pflag.ContinueOnError)
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			at := slices.IndexFunc(groups, func(g flagGroup) bool { return g.has(f.Name) }) + 1
			sets[at].AddFlag(f)
		})
		out := cmd.OutOrStderr()
		fmt.Fprintf(out, "Usage:\n  %s\n\nExamples:\n%s\n\nFlags:\n%s", cmd.UseLine(), cmd.Example, sets[0].FlagUsages())
		for i, g := range groups {
			fmt.Fprintf(out, "\n%s:\n%s", g.title, sets[i+1].FlagUsages())
		}
		_, err := fmt.Fprintf(out, "\nGlobal Flags:\n%s", cmd.InheritedFlags().FlagUsages())
		return err
	})
}
