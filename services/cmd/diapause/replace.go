package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/schemas"
)

// replaceFlags are those of resume that have a snapshot take the place of what a session
// is now.
type replaceFlags struct {
	replace  bool
	snapshot string
	within   time.Duration
}

func (f *replaceFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.BoolVar(&f.replace, "replace", false, "stop what it is now, which becomes a snapshot, and put that back unless what is resumed gets well")
	fl.StringVar(&f.snapshot, "snapshot", "", "with --replace: the snapshot that takes its place (default: its last one)")
	durationVar(fl, &f.within, "healthy-within", time.Minute, "with --replace: how long its health check may take to pass; without one it has to run for that long, 10s at most")
}

// check refuses flags that don't go together.
func (f *replaceFlags) check(cmd *cobra.Command, other bool) error {
	switch given := cmd.Flags().Changed; {
	case f.replace && other:
		return usagef("resume: --replace goes with neither --clean nor --as")
	case !f.replace && (given("snapshot") || given("healthy-within")):
		return usagef("resume: --snapshot and --healthy-within are for --replace").WithHint("`diapause rollback` goes back to a snapshot as it is")
	}
	return nil
}

func (f *replaceFlags) ask(cmd *cobra.Command, c *client, name string) error {
	if f.within < time.Millisecond || f.within > schemas.MaxWithin {
		return usagef("--healthy-within %s: want a duration such as 30s, %s at most", f.within, schemas.Duration(schemas.MaxWithin))
	}
	flag := func(name string) string { return cmd.Flag(name).Value.String() }
	if c.timeout <= 0 { // beside that, it may take what the rest takes
		c.timeout = f.within + 2*time.Minute
	}
	var v schemas.View
	err := c.call(cmd.Context(), "replace", schemas.Request{
		Name: name, Snapshot: f.snapshot, Within: schemas.Duration(f.within), Reason: flag("reason"),
	}, &v)
	if err != nil {
		return err
	}
	return answers{asJSON: flag("json") == "true"}.print(v, func() {
		printOutcome(v)
		printWarnings(v)
	})
}

func acceptCommand(c *client) *cobra.Command {
	return sessionVerb{verb: "accept", use: "accept NAME...", short: "Keep what `resume --replace` put in a session's place, before it is known to be well"}.command(c)
}

func rejectCommand(c *client) *cobra.Command {
	return sessionVerb{verb: "reject", use: "reject NAME...", short: "Put back what `resume --replace` took the place of, without waiting for the rest of its time"}.command(c)
}
