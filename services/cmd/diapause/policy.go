package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	_ "time/tzdata" // of quiet hours, where the host has none

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/schemas"
)

const policyHelp = `Say when sessions are suspended: a policy for all, for a class, or for one session,
each above the one before; what it leaves out is as the one below says. Below all are the
defaults that up was started with (up --preset, and the variables of "diapause up --help"),
below them what is built in. A change holds at once, for sessions that there are as well.

SCOPE is all, class:web (terminal, automation, slack, desktop), session:NAME, or for a
quota tenant:NAME, and KEY=VALUE one of, with KEY= to take it back and "none" for an empty list:

  grace=10m                  how long nothing that counts has to happen
  never=true                 not suspended for idleness
  counts=input,exec,hold     kinds of activity that count (and hold always)
  wakes=input,http           kinds that resume a suspended session
  wake=navigation,fetch,websocket,tcp,crawler:ignore
                             classes of requests through an ingress that resume a suspended
                             session and keep it in use; the others (probe, link-preview,
                             crawler, reconnect) are answered in its stead, or ignored
  ignore=busy.cpu            leases that don't count, though their kind does
  awake=1m                   runs at least so long after a resume
  warn=30s                   a "warning" event so long before a suspend
  ask=for:30s,defer:5m,times:3
                             a "question" event; each hold named "defer" puts it off by
                             5 minutes at most, all of them together by 3 times that
  quiet='mon-fri 08:00-18:00 Europe/Berlin'
                             hours in which nothing is suspended; several with ;
  life=12h                   runs so long in one go, then it is suspended (reason
                             "expired") as soon as no lease lives; activity resumes it
  breaker=3 backoff=10s      failed suspends that stop further ones; pause after one
  on_suspend_failure=stop    what becomes of a session then: keep or stop
  on_resume_failure=fresh    of a session whose snapshot is proven to be of no use: keep it
                             suspended, or fresh: the next access starts its command again,
                             and a notice keeps the snapshot until a person dismisses it
  rehearse=changed           which suspends are rehearsed before the processes are killed:
                             always (the default), changed (since the last
                             rehearsal) or never
  redact=recording           of what known secrets are taken out: of what is recorded from
                             the next start or resume on, or off (the default)
  checkpoints=run_end,before:deploy
                             what an agent does that makes a checkpoint
  checkpoints=every:10m      one whenever the last snapshot is so old and the session has
                             executed something since: what a lost host costs at most
  score=base:100,idle_hour:10,command:2,commands_count:100,by_person:50
                             which session matters, where there is no room for all
  keep=age:168h,count:10,archive:720h,drop_memory:2160h
                             which snapshots stay, in place of up --retention; when
                             terminals that sleep or have ended are archived; and after
                             how long in the archive their memory and files are deleted
  watermarks=sessions:0.8,memory:0.9,pressure:0.2
                             of all only: how full a host may get
  slots=10                   of all only: how many sessions each host has room for, in place
                             of its --slots; 0 is no limit
  quota=sessions:100,running:10,stored:50G,total:1000
                             of tenant:NAME, or of all for every tenant: how much it may
                             have; 0 is no limit. What is above that is refused, but
                             for total: the oldest terminals are archived`

func policyCommand(c *client) *cobra.Command {
	cmd := &cobra.Command{Use: "policy", Short: "Say when sessions are suspended, and try it", Long: policyHelp}
	cmd.AddCommand(policyGetCommand(c), policySetCommand(c), policyTestCommand(c), policySimulateCommand(c))
	return cmd
}

func policyGetCommand(c *client) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "get [SCOPE]", Short: "Show what sessions are held to", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := schemas.PolicyRequest{}
			if len(args) > 0 {
				req.Scope = args[0]
			}
			var out []schemas.PolicyView
			if err := c.call(cmd.Context(), "policy_get", schemas.Request{Policy: &req}, &out); err != nil {
				return err
			}
			if asJSON {
				return printJSON(out)
			}
			for _, v := range out {
				printPolicy(v, len(args) > 0)
			}
			if len(args) == 0 {
				fmt.Fprintln(printed, "what holds besides, and what says so: `diapause policy get SCOPE`")
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// printPolicy shows what is set, and with all what is in effect besides, and what set it.
func printPolicy(v schemas.PolicyView, all bool) {
	fmt.Fprintf(printed, "%s, ", v.Scope)
	switch {
	case v.Version == 0:
		fmt.Fprintln(printed, "nothing set")
	case v.Change != nil:
		fmt.Fprintf(printed, "version %d by %s, %s ago", v.Version, v.Change.By, ago(v.Change.At))
		if v.Change.Reason != "" {
			fmt.Fprintf(printed, ": %s", v.Change.Reason)
		}
		fmt.Fprintln(printed)
	}
	if v.Scope == schemas.ScopeDefaults {
		printDefaults(v.Defaults)
		return
	}
	if !all {
		for _, line := range v.Policy.Lines() {
			fmt.Fprintln(printed, "  "+line)
		}
		return
	}
	w := tabwriter.NewWriter(printed, 0, 0, 3, ' ', 0)
	for _, line := range v.Effective.Lines() {
		key, _, _ := strings.Cut(line, "=")
		fmt.Fprintf(w, "  %s\t%s\n", line, originOf(v, key))
	}
	_ = w.Flush() // standard output is closed, then
}

// printDefaults shows what holds below all policies, and what says so.
func printDefaults(all []schemas.PolicyDefault) {
	w := tabwriter.NewWriter(printed, 0, 0, 3, ' ', 0)
	for _, d := range all {
		for _, line := range d.Policy.Lines() {
			fmt.Fprintf(w, "  %s: %s\t(%s)\n", d.Scope, line, d.From)
		}
	}
	_ = w.Flush() // standard output is closed, then
}

func originOf(v schemas.PolicyView, key string) string {
	switch from := v.Origins[key]; from {
	case "":
		return ""
	case string(v.Scope):
		return "(set here)"
	case string(schemas.ScopeAll):
		return "(of all)"
	default:
		return "(" + from + ")"
	}
}

// edit is how a policy is changed at the command line.
type edit struct {
	file    string
	reason  string
	version int64
}

// of gives the document of a scope with the changes that the arguments make.
func (e edit) of(ctx context.Context, c *client, scope string, args []string) (schemas.Policy, uint64, error) {
	var out []schemas.PolicyView
	err := c.call(ctx, "policy_get", schemas.Request{Policy: &schemas.PolicyRequest{Scope: scope}}, &out)
	if err != nil {
		return schemas.Policy{}, 0, err
	}
	p, version := out[0].Policy, out[0].Version
	if e.version >= 0 {
		version = uint64(e.version)
	}
	if e.file != "" {
		if p, err = readPolicy(e.file); err != nil {
			return p, 0, err
		}
	}
	for _, arg := range args {
		if err := p.Assign(arg); err != nil {
			return p, 0, usage(err)
		}
	}
	return p, version, nil
}

func readPolicy(file string) (schemas.Policy, error) {
	var data []byte
	var err error
	if file == "-" {
		data, err = io.ReadAll(os.Stdin)
	} else {
		data, err = os.ReadFile(file)
	}
	if err != nil {
		return schemas.Policy{}, usagef("policy: %v", err)
	}
	p, err := schemas.ReadPolicy(data)
	if err != nil {
		return p, usagef("policy %s: %v", file, err)
	}
	return p, nil
}

func (e *edit) flags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&e.file, "file", "f", "", "take the policy from this file of JSON, - for standard input, in place of what is set")
}

func policySetCommand(c *client) *cobra.Command {
	var e edit
	var asJSON bool
	cmd := &cobra.Command{
		Use: "set SCOPE [KEY=VALUE ...]", Short: "Change what sessions are held to", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && e.file == "" {
				return usagef("policy set: say what, as KEY=VALUE or with --file").WithHint("see `diapause policy --help`")
			}
			p, version, err := e.of(cmd.Context(), c, args[0], args[1:])
			if err != nil {
				return err
			}
			var out schemas.PolicyView
			req := schemas.Request{Reason: e.reason, Policy: &schemas.PolicyRequest{Scope: args[0], Policy: &p, Version: &version}}
			if err := c.call(cmd.Context(), "policy_set", req, &out); err != nil {
				return err
			}
			return answers{asJSON: asJSON}.print(out, func() { printPolicy(out, false) })
		},
	}
	e.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().StringVar(&e.reason, "reason", "", "why, for those who look at it later")
	cmd.Flags().Int64Var(&e.version, "version", -1, "refuse unless this version is the last (0: nothing is set yet)")
	return cmd
}

func policyTestCommand(c *client) *cobra.Command {
	e, asJSON := edit{version: -1}, false
	cmd := &cobra.Command{
		Use: "test SCOPE [KEY=VALUE ...]", Short: "Say what a policy would do to sessions now, and change nothing", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, _, err := e.of(cmd.Context(), c, args[0], args[1:])
			if err != nil {
				return err
			}
			var out schemas.PolicyTest
			req := schemas.Request{Policy: &schemas.PolicyRequest{Scope: args[0], Policy: &p}}
			if err := c.call(cmd.Context(), "policy_test", req, &out); err != nil {
				return err
			}
			if asJSON {
				return printJSON(out)
			}
			printTest(out)
			return nil
		},
	}
	e.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printTest(out schemas.PolicyTest) {
	fmt.Fprintf(printed, "%s; for %d something would be otherwise, %d would be suspended at once\n", count(out.Tested, "session"), out.Changed, out.Suspends)
	defer func() {
		for _, note := range out.Notes {
			fmt.Fprintln(printed, "note: "+note)
		}
	}()
	if len(out.Sessions) == 0 {
		return
	}
	table("NAME\tSTATE\tNOW\tIN\tWOULD\tIN", func(w *tabwriter.Writer) {
		for _, v := range out.Sessions {
			would, then := v.Would, in(v.Then)
			if !v.Changed {
				would, then = "the same", ""
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", v.Name, v.State, v.Now, in(v.At), would, then)
		}
	})
	if out.Omitted > 0 {
		fmt.Fprintf(printed, "and %d more\n", out.Omitted)
	}
}

func in(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return max(time.Until(t), 0).Round(time.Second).String()
}

const simulateHelp = `Live the last hours again under another policy, and under the one that holds, and
compare: suspends, resumes, how much memory was free for how long, and how often it
would have been wrong (resumed within two minutes).

It goes by a use history: while a scheduler runs it writes down each silence of a session
that was longer than 20 s, and from when to when each kind of activity was heard, for 14
days or 256 MiB. So other kinds that count, wake or are ignored can be tried as well.
What a session would have done while it was suspended is unknown. Evictions, and suspends
that were asked for, are left out of both sides, and counted in a note.`

func policySimulateCommand(c *client) *cobra.Command {
	e, asJSON, since := edit{version: -1}, false, 24*time.Hour
	cmd := &cobra.Command{
		Use: "simulate SCOPE [KEY=VALUE ...]", Short: "Say what a policy would have done", Long: simulateHelp, Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if since <= 0 {
				return usagef("--since %s: want how far to go back, e.g. 24h", since)
			}
			p, _, err := e.of(cmd.Context(), c, args[0], args[1:])
			if err != nil {
				return err
			}
			req := schemas.PolicyRequest{Scope: args[0], Policy: &p, Since: schemas.Duration(since), Lives: asJSON}
			out, err := patient[schemas.PolicySimulation](cmd.Context(), c, "policy_simulate", schemas.Request{Policy: &req})
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(out)
			}
			printSimulation(out)
			return nil
		},
	}
	e.flags(cmd)
	durationVar(cmd.Flags(), &since, "since", since, "how far to go back, e.g. 12h or 7d")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printSimulation(out schemas.PolicySimulation) {
	fmt.Fprintf(printed, "%s: %s, from %s to %s (%s)\n", out.Scope, count(out.Sessions, "session"), out.From.Format(time.RFC3339), out.To.Format(time.RFC3339), out.To.Sub(out.From).Round(time.Second))
	table("\tSUSPENDS\tRESUMES\tWITHIN 2 MIN\tASLEEP\tMEMORY SAVED\tWAITED", func(w *tabwriter.Writer) {
		row := func(name string, o schemas.Outcome) {
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%.2f h\t%.3f GiB h\t%.1f s\n", name, o.Suspends, o.Resumes, o.Wrong, o.AsleepHours, o.SavedGiBh, o.Waits)
		}
		row("as it is", out.Now)
		row("would be", out.Would)
	})
	if out.Unknown > 0 {
		fmt.Fprintf(printed, "%d of them, of which the use history says nothing, count as in use\n", out.Unknown)
	}
	for _, note := range out.Notes {
		fmt.Fprintln(printed, "note: "+note)
	}
}

// printGrounds shows what an explanation rests on.
func printGrounds(e schemas.Explanation) {
	decided := e.Last
	if e.Decided != nil {
		decided = *e.Decided
		fmt.Fprintf(printed, "last decision: %s by %s, %s ago: %s\n", decided.Type, schemas.Who(decided.Actor, decided.Note), ago(decided.At), decided.Reason+joined(decided.Joined))
	}
	if v := decided.Evidence; v != nil {
		fmt.Fprintf(printed, "decided on: activity up to message %d", v.Seq)
		if v.Last != "" {
			fmt.Fprintf(printed, ", the last that counted %s at %s", v.Last, v.LastAt.Format(time.RFC3339))
		}
		if v.Activity != "" {
			fmt.Fprintf(printed, ", %s", v.Activity)
		}
		fmt.Fprintln(printed)
	}
	if e.LastUse != "" {
		fmt.Fprintf(printed, "last use: %s, message %d of the activity stream\n", e.LastUse, e.LastUseSeq)
	}
	if every := e.Every; every > 0 && !e.SnapshotAt.IsZero() {
		fmt.Fprintf(printed, "last snapshot: %s ago; while it runs and changes one is made every %s\n", ago(e.SnapshotAt), every)
	} else if every > 0 {
		fmt.Fprintf(printed, "last snapshot: none; while it runs and changes one is made every %s\n", every)
	} else if !e.SnapshotAt.IsZero() {
		fmt.Fprintf(printed, "last snapshot: %s ago\n", ago(e.SnapshotAt))
	}
	if e.State == schemas.Running {
		fmt.Fprintf(printed, "score: %.0f\n", e.Score)
	}
	for _, p := range e.Policies {
		fmt.Fprintln(printed, "policy: "+p)
	}
}
