package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// elsewhere are verbs of podman, docker, restic and the like that have no command here of
// the same meaning, and what does here what they do there.
var elsewhere = map[string]string{
	"stop":     "`diapause suspend NAME` frees its memory and keeps it; `diapause kill NAME` ends it",
	"start":    "`diapause ensure NAME` has a session running, resumed if need be; `diapause run` starts a new one",
	"restart":  "`diapause kill NAME`, then `diapause resume --clean NAME`",
	"inspect":  "`diapause show --json NAME`",
	"pause":    "`diapause suspend NAME`",
	"unpause":  "`diapause ensure NAME`",
	"create":   "`diapause run --name NAME -- CMD`",
	"restore":  "`diapause resume NAME`, or `diapause rollback NAME SNAPSHOT`",
	"snapshot": "`diapause checkpoint NAME` takes one, `diapause snapshots NAME` lists them",
	"backup":   "`diapause checkpoint NAME`",
	"forget":   "`diapause snapshots rm NAME SNAPSHOT`, or `diapause store prune`",
	"prune":    "`diapause store prune`",
	"check":    "`diapause store check`, or `diapause verify NAME`",
	"clone":    "`diapause fork NAME NEW`",
	"copy":     "`diapause cp NAME:PATH PATH`, or `diapause fork NAME NEW` for the whole session",
	"top":      "`diapause exec NAME top`, or `diapause ls`",
	"events":   "`diapause ls --watch`, or `diapause history NAME`",
	"status":   "`diapause ls`, or `diapause show NAME`",
	"info":     "`diapause stats`, or `diapause doctor`",
	"init":     "`diapause up` makes what it needs",
	"daemon":   "`diapause up`",
	"server":   "`diapause up`",
	"images":   "`diapause snapshots NAME`, or `diapause store stats`",
	"commit":   "`diapause checkpoint NAME`",
	"shell":    "`diapause attach NAME`, or `diapause exec -it NAME bash`",
	"ssh":      "`diapause attach NAME`, or `diapause exec -it NAME bash`",
}

// elsewhereFlags are the like for flags, by command and flag.
var elsewhereFlags = map[string]string{
	"run rm":         "a session is kept until `diapause rm NAME`",
	"run entry":      "--entrypoint, with --image",
	"run cpu":        "--cpus",
	"run mount":      "--volume, with --image",
	"run privileged": "no session has more rights than its host's worker gives it; see workers/README.md",
	"rm v":           "images and volumes of a session go with it",
	"logs since":     "--tail N",
	"logs t":         "`diapause history NAME` has the times",
	"ls filter":      "--state, --tenant",
	"suspend t":      "--timeout",
}

// elsewhereFlag gives the hint for a flag that a command doesn't know, "" if there is none.
func elsewhereFlag(cmd *cobra.Command, flag string) string {
	return elsewhereFlags[cmd.Name()+" "+flag]
}

// unknownCommand is the error of words that name no command; nil if they do.
func unknownCommand(root *cobra.Command, args []string) error {
	_, rest, err := root.Find(args)
	if err == nil || slices.Contains(args, cobra.ShellCompRequestCmd) || slices.Contains(args, cobra.ShellCompNoDescRequestCmd) {
		return nil // a shell's request for completions is a command that cobra adds
	}
	word := rest[0]
	if i := slices.IndexFunc(rest, func(w string) bool { return !strings.HasPrefix(w, "-") }); i >= 0 {
		word = rest[i]
	}
	return noCommand(root, word)
}

func noCommand(parent *cobra.Command, word string) error {
	e := usagef("unknown command %q for %q", word, parent.CommandPath())
	if hint := elsewhere[word]; hint != "" && !parent.HasParent() {
		return e.WithHint("%s", hint)
	}
	parent.SuggestionsMinimumDistance = 2
	if near := parent.SuggestionsFor(word); len(near) == 1 && len(word) > 2 {
		return e.WithHint("`%s %s`?", parent.CommandPath(), near[0])
	}
	return e.WithHint("`%s --help` lists the commands", parent.CommandPath())
}

// helpCommand is `diapause help COMMAND`.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Help about a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			about, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 && about.HasSubCommands() {
				return noCommand(about, rest[0])
			}
			about.InitDefaultHelpFlag()
			if err := about.Help(); err != nil {
				return fmt.Errorf("print the help: %w", err)
			}
			return nil
		},
	}
}
