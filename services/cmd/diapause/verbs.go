package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/workers/docker"
)

func lifecycleCommands(c *client) []*cobra.Command {
	return []*cobra.Command{
		runCommand(c), adoptCommand(c), suspendCommand(c), resumeCommand(c), ensureCommand(c), killCommand(c), removeCommand(c),
		checkpointCommand(c), forkCommand(c), rollbackCommand(c), acceptCommand(c), rejectCommand(c),
	}
}

// runFlags are the flags of run.
type runFlags struct {
	host                        string
	driver                      schemas.DriverName
	by                          schemas.MadeBy
	onLoss                      schemas.OnHostLoss
	onBreaker                   schemas.OnBreaker
	name, class, idle           string
	dir, user, root, network    string
	env                         []string
	memory                      int64
	hookTimeout                 time.Duration
	cpus                        float64
	pids                        int64
	tty, attach, asJSON         bool
	onSuspend, onResume, onFork string
	container                   containerFlags
}

const runHelp = `Start a session: a process tree with a private copy of the root file system, its
own process ids, and a life that suspends and resumes can't be seen in.

The command starts in the current directory with PATH, HOME, USER, SHELL, LANG and
TERM of the caller; --env adds to them. What it prints is kept ("diapause logs"),
the last 1 MiB of it. With --tty it has a terminal ("diapause attach"), which --attach
shows at once: Ctrl-] leaves it.

A session sees the host's files as they are, and keeps what it changes to itself.
It runs with its own process ids, mounts and IPC, without the capabilities that
lead out of them, but with the host's network unless --network none, and with the
host's kernel: it is no sandbox for code that attacks kernels.`

func runCommand(c *client) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use: "run --name NAME [flags] [--] CMD [ARG...]", Short: "Start a session", Long: runHelp,
		Example: "  diapause run --name work --attach -- bash\n  diapause run --name train --idle 5m --memory 2G -- python3 train.py",
		Args: func(cmd *cobra.Command, args []string) error {
			if f.container.Image != "" {
				return nil // it has a command of its own
			}
			return cobra.MinimumNArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runSession(cmd.Context(), c, f, args, cmd.Flags().Changed)
		},
	}
	fl := cmd.Flags()
	fl.SetInterspersed(false) // what follows the command's first word is its own
	fl.StringVar(&f.name, "name", "", "[tenant/]id of the session (required)")
	fl.StringVar(&f.class, "class", "", "web, terminal, automation, slack or desktop (default web, terminal with --tty)")
	fl.StringVar(&f.idle, "idle", "", "suspend after this time without use, e.g. 20s; or never (default: by class)")
	fl.StringVar((*string)(&f.by), "by", string(schemas.MadeByPerson), "person or agent")
	fl.BoolVarP(&f.tty, "tty", "t", false, "give it a terminal")
	fl.BoolVarP(&f.attach, "attach", "a", false, "give it a terminal and use it at once, as attach does")
	fl.StringArrayVarP(&f.env, "env", "e", nil, "K=V, or K to copy the caller's")
	fl.StringVar(&f.dir, "cwd", "", "working directory inside the session (default: the current one)")
	fl.StringVar(&f.user, "user", "", "uid[:gid] or name inside the session")
	fl.StringVar(&f.root, "root", "", "a directory to use as its root, in place of the host's")
	sizeVar(fl, &f.memory, "memory", "limit, e.g. 512M or 2G")
	fl.Float64Var(&f.cpus, "cpus", 0, "limit, e.g. 1.5")
	fl.Int64Var(&f.pids, "pids", 0, "limit on the number of processes")
	fl.StringVar(&f.network, "network", "host", "host or none")
	fl.StringVar((*string)(&f.driver), "driver", "", "how it runs and is captured (default: what the host has)")
	fl.StringVar(&f.host, "host", "", "where it begins (default: this one, or any that can)")
	fl.StringVar((*string)(&f.onBreaker), "on-suspend-failure", "", "when three suspends in a row failed: keep it running, or stop it, and lose what it had since its last snapshot (default: as the policy says, keep)")
	fl.StringVar((*string)(&f.onLoss), "on-host-loss", string(schemas.LossWait), "when its host is gone: wait for it, or resume its last snapshot elsewhere")
	fl.StringVar(&f.onSuspend, "on-suspend", "", "command run in the session before it is frozen")
	fl.StringVar(&f.onResume, "on-resume", "", "command run in the session after a resume or rollback")
	fl.StringVar(&f.onFork, "on-fork", "", "command run in a fork of the session when it begins")
	durationVar(fl, &f.hookTimeout, "hook-timeout", 10*time.Second, "time limit of each of these")
	f.container.add(fl)
	fl.BoolVar(&f.asJSON, "json", false, "print the session as JSON")
	return cmd
}

func runSession(ctx context.Context, c *client, f runFlags, command []string, changed func(flag string) bool) error {
	if f.name == "" {
		return usagef("run: give the session a name with --name, before the command")
	}
	if _, err := schemas.ParseName(f.name); err != nil {
		return usageError{err}
	}
	if f.attach && f.asJSON {
		return usagef("run: --attach shows the session's terminal, --json prints what became of it: leave one out")
	}
	f.tty = f.tty || f.attach
	spec, err := f.spec(command)
	if err != nil {
		return err
	}
	if f.container.Image != "" && f.driver != "" && f.driver != docker.Name {
		return usagef("run: --image is for driver %s: leave --driver %s out", docker.Name, f.driver)
	}
	if f.driver == docker.Name || f.container.Image != "" {
		f.driver = docker.Name
		if f.onLoss == schemas.LossResume {
			return usagef("run: a container can't freeze by itself when its host is gone, so it can't go on elsewhere then: leave --on-host-loss %s out", f.onLoss)
		}
		if err := f.container.fill(&spec, changed, f.env); err != nil {
			return err
		}
	} else if err := f.container.refuse(); err != nil {
		return err
	}
	idle, err := parseIdle(f.idle)
	if err != nil {
		return err
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("encode the command: %w", err)
	}
	var v schemas.View
	err = c.call(ctx, "run", schemas.Request{Name: f.name, Run: &schemas.RunRequest{
		Class: f.class, Driver: f.driver, MadeBy: f.by, Idle: idle, TTY: f.tty, OnLoss: f.onLoss, OnBreaker: f.onBreaker, Host: schemas.HostID(f.host), Program: program(command, spec), Spec: data,
	}}, &v)
	if err != nil {
		return err
	}
	if f.attach {
		return c.attach(ctx, f.name)
	}
	return printOutcome(v, f.asJSON)
}

// program is what lists call a session's command.
func program(command []string, s schemas.Spec) string {
	if len(command) > 0 {
		return command[0]
	}
	o, _, _ := dockerspec.Of(s) // the command line wrote them
	return o.Image
}

func (f runFlags) spec(command []string) (schemas.Spec, error) {
	s := schemas.Spec{
		Command: command, Dir: f.dir, User: f.user, Root: f.root, TTY: f.tty, CPUs: f.cpus, Pids: f.pids, Network: f.network,
		Hooks: schemas.Hooks{OnSuspend: f.onSuspend, OnResume: f.onResume, OnFork: f.onFork},
	}
	if s.Dir == "" && s.Root == "" {
		s.Dir, _ = os.Getwd() // "" is the root directory
	}
	if f.network != "host" && f.network != "none" {
		return s, usagef("--network %q: want host or none", f.network)
	}
	if f.cpus < 0 || f.pids < 0 {
		return s, usagef("--cpus and --pids take positive numbers")
	}
	var err error
	if f.hookTimeout <= 0 {
		return s, usagef("--hook-timeout %s: want a duration above 0, such as 10s", f.hookTimeout)
	}
	s.Memory, s.Hooks.Timeout = f.memory, f.hookTimeout
	if s.Env, err = environment(f.env); err != nil {
		return s, err
	}
	if f.tty {
		if cols, rows, err := term.GetSize(int(os.Stdin.Fd())); err == nil {
			s.Cols, s.Rows = uint16(cols), uint16(rows)
		}
	}
	return s, nil
}

// environment is what a command of a person's shell expects, and what was asked
// for.
func environment(extra []string) ([]string, error) {
	var out []string
	for _, k := range []string{"PATH", "HOME", "USER", "SHELL", "LANG", "TERM"} {
		if v, ok := os.LookupEnv(k); ok {
			out = append(out, k+"="+v)
		}
	}
	for _, e := range extra {
		k, _, given := strings.Cut(e, "=")
		if k == "" {
			return nil, usagef("--env %q: want K=V or K", e)
		}
		if !given {
			v, ok := os.LookupEnv(k)
			if !ok {
				return nil, usagef("--env %s: it is not set here", k)
			}
			e = k + "=" + v
		}
		out = append(out, e)
	}
	return out, nil
}

func parseIdle(s string) (*schemas.Idle, error) {
	switch s {
	case "":
		return nil, nil
	case "never":
		return &schemas.Idle{Never: true}, nil
	}
	d, err := schemas.ParseDuration(s)
	if err != nil || d < time.Millisecond {
		return nil, usagef("--idle %q: want a duration such as 20s or 7d, or never", s)
	}
	return &schemas.Idle{Grace: d.Milliseconds()}, nil
}

// simple makes a command that asks one verb of one session and prints what
// became of it.
func simple(c *client, verb, use, short string, args int, fill func(req *schemas.Request, args []string)) *cobra.Command {
	var reason string
	var asJSON bool
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(args),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := schemas.Request{Name: args[0], Reason: reason}
			if fill != nil {
				fill(&req, args)
			}
			var v schemas.View
			if err := c.call(cmd.Context(), verb, req, &v); err != nil {
				return err
			}
			if verb == "checkpoint" && !asJSON {
				fmt.Println(checkpointLine(v))
				return nil
			}
			return printOutcome(v, asJSON)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "kept in the session's history")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the session as JSON")
	return cmd
}

func suspendCommand(c *client) *cobra.Command {
	var reset bool
	cmd := simple(c, "suspend", "suspend NAME", "Write a session's image and free its memory", 1,
		func(req *schemas.Request, _ []string) { req.Reset = reset })
	cmd.Flags().BoolVar(&reset, "reset", false, "not now: forget that suspends failed, so that it is suspended when it is idle")
	return cmd
}

func ensureCommand(c *client) *cobra.Command {
	return simple(c, "ensure", "ensure NAME", "Have a session running, resumed if need be, and wait for it", 1, nil)
}

func resumeCommand(c *client) *cobra.Command {
	var clean bool
	var as string
	var r replaceFlags
	cmd := simple(c, "resume", "resume NAME", "Resume a session from its last snapshot", 1,
		func(req *schemas.Request, _ []string) { req.Clean = clean })
	cmd.Flags().BoolVar(&clean, "clean", false, "start its command anew; its memory stays in its snapshots")
	cmd.Flags().StringVar(&as, "as", "", "as a session of this name beside it, which stays as it is: the same as fork")
	r.add(cmd)
	resume := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := r.check(cmd, clean || as != ""); err != nil {
			return err
		}
		switch {
		case r.replace:
			return r.ask(cmd, c, args[0])
		case as == "":
			return resume(cmd, args)
		case clean:
			return usagef("resume: --as goes on from a snapshot, --clean begins anew")
		}
		var v schemas.View
		if err := c.call(cmd.Context(), "fork", schemas.Request{Name: args[0], To: as}, &v); err != nil {
			return err
		}
		return printOutcome(v, cmd.Flag("json").Value.String() == "true")
	}
	return cmd
}

func checkpointCommand(c *client) *cobra.Command {
	var description, runID string
	cmd := simple(c, "checkpoint", "checkpoint NAME", "Take a snapshot of a session, which runs on", 1,
		func(req *schemas.Request, _ []string) { req.Description, req.RunID = description, runID })
	cmd.Flags().StringVar(&description, "description", "", "kept with the snapshot")
	cmd.Flags().StringVar(&runID, "run-id", "", "the caller's own id for it")
	return cmd
}

func forkCommand(c *client) *cobra.Command {
	return simple(c, "fork", "fork NAME NEW", "Make a second session from a session's memory and files", 2,
		func(req *schemas.Request, args []string) { req.To = args[1] })
}

func rollbackCommand(c *client) *cobra.Command {
	return simple(c, "rollback", "rollback NAME SNAPSHOT", "Take a session back to a snapshot; what it is now becomes one first", 2,
		func(req *schemas.Request, args []string) { req.Snapshot = args[1] })
}

func killCommand(c *client) *cobra.Command {
	return simple(c, "kill", "kill NAME", "End a session's processes and keep its snapshots; what it had since the last one is lost", 1, nil)
}

// shredded says what can't be promised.
const shredded = `Whoever copied the session's keys, or the store's objects together with an identity that
read them, still has them: backups of the bucket or of the data directory's keys are not
touched. The log keeps how the session was started, sealed to those who read it then.`

func removeCommand(c *client) *cobra.Command {
	var yes, shred bool
	cmd := simple(c, "rm", "rm NAME", "End a session and delete its images", 1,
		func(req *schemas.Request, _ []string) { req.Shred = shred })
	cmd.Flags().BoolVar(&yes, "yes", false, "don't ask")
	cmd.Flags().BoolVar(&shred, "shred", false, "have every host forget it as well, and record that it was shredded")
	cmd.PostRun = func(*cobra.Command, []string) {
		if shred {
			fmt.Fprintln(os.Stderr, shredded)
		}
	}
	cmd.PreRunE = func(_ *cobra.Command, args []string) error {
		if yes {
			return nil
		}
		if !term.IsTerminal(int(os.Stdin.Fd())) {
			return usagef("rm deletes session %s and all its images for good: confirm with --yes", args[0])
		}
		fmt.Fprintf(os.Stderr, "Delete session %s and all its images for good? [y/N] ", args[0])
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n') // no answer is no
		if a := strings.ToLower(strings.TrimSpace(line)); a != "y" && a != "yes" {
			return usagef("session %s was left as it is", args[0])
		}
		return nil
	}
	return cmd
}
