// Command diapause suspends idle sessions to encrypted images and brings them
// back on access, exactly where they were.
//
// It is every part of the system and its own client: `diapause up` runs all of
// it in one process (up.go), the other verbs ask a running one (verbs.go,
// read.go, terminal.go). What runs until it is interrupted is built by package run.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/workers/shim"
)

// version of the program; releases set it when they are linked.
var version = "0.1.0-dev"

// ownStatus annotates a command that exits with the status of another, with what it exits
// with if that was never run.
const ownStatus = "own-status"

func main() {
	if code, ok := hidden(os.Args[1:]); ok {
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(execute(ctx, os.Args[1:]))
}

// hidden runs the parts of the program that are no command of a person: the
// shim that holds a session.
func hidden(args []string) (code int, ok bool) {
	if len(args) > 0 && args[0] == "shim" {
		return shim.Main(args[1:]), true
	}
	return canaryProgram(args)
}

func execute(ctx context.Context, args []string) int {
	root := newRoot()
	root.SetArgs(args)
	if err := unknownCommand(root, args); err != nil {
		return ended(root, args, err)
	}
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	return ended(cmd, args, err)
}

const rootHelp = `Diapause suspends idle sessions to encrypted images in an object store, frees
their memory, and brings them back on access, exactly where they were.

  diapause up                          run everything in this process
  diapause run --name work -- bash     start a session
  diapause ls                          see what there is
  diapause suspend work                write its image, free its memory
  diapause ensure work                 have it running, resumed if need be

NAME is [tenant/]id, the tenant "default" if not given. Clients talk to --url
(DIAPAUSE_URL) with --creds (DIAPAUSE_CREDS), or else to the "diapause up" of
--data (DIAPAUSE_DATA, by default /var/lib/diapause).

Exit codes: 0 done, 1 failed, 2 usage, 3 no such session, 4 refused because of
the session's state, 5 timed out, 130 interrupted (what was asked for goes on). exec,
busy and attach exit with the status of their command.`

func newRoot() *cobra.Command {
	c := &client{}
	root := &cobra.Command{
		Use: "diapause", Short: "Suspend idle sessions, resume them on access", Long: rootHelp,
		SilenceUsage: true, SilenceErrors: true, Version: version,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if given := cmd.Flag("timeout"); given != nil && given.Changed && c.timeout <= 0 {
				return usagef("--timeout %s: want a time above 0, e.g. 30s", c.timeout)
			}
			return nil
		},
	}
	root.SetFlagErrorFunc(flagError)
	f := root.PersistentFlags()
	f.StringVar(&c.url, "url", os.Getenv("DIAPAUSE_URL"), "NATS server to talk to (DIAPAUSE_URL)")
	f.StringVar(&c.creds, "creds", os.Getenv("DIAPAUSE_CREDS"), "file of credentials for it (DIAPAUSE_CREDS)")
	f.StringVar(&c.data, "data", envOr("DIAPAUSE_DATA", "/var/lib/diapause"), "data directory `DIR` of the local diapause up (DIAPAUSE_DATA)")
	durationVar(f, &c.timeout, "timeout", 0, "how long the answer may take (default 2m; with --healthy-within that much more)")
	for _, part := range []*cobra.Command{upCommand(c), workerCommand(c), schedulerCommand(c), apiCommand(c), gatewayCommand(c)} {
		root.AddCommand(fromEnvironment(part))
	}
	root.AddCommand(natsStreamsCommand(c), readyCommand(c), downCommand(c), doctorCommand(c))
	root.AddCommand(lifecycleCommands(c)...)
	root.AddCommand(readCommands(c)...)
	root.AddCommand(storeCommands(c)...)
	root.AddCommand(activityCommands(c)...)
	root.AddCommand(terminalCommands(c)...)
	root.AddCommand(keyCommand(c), tokenCommand(c), loginLinkCommand(c), policyCommand(c), hostCommand(c), moveCommand(c), exposeCommand(c), labelCommand(c), shareCommand(c), unshareCommand(c), templateCommand(c), redactCommand(c))
	root.AddCommand(usageCommand(c), triggerCommand(c))
	root.AddCommand(busyCommand(c), statsCommand(c), natsConfigCommand(), versionCommand())
	root.InitDefaultCompletionCmd()
	root.SetHelpCommand(helpCommand())
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		checkArgs(cmd)
		strict(cmd)
		completeName(c, cmd)
	}
	group(root)
	return root
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) { fmt.Fprintf(printed, "diapause version %s\n", version) },
	}
}

func envOr(key, value string) string {
	if v := os.Getenv(key); v != "" {
		return v
	}
	return value
}
