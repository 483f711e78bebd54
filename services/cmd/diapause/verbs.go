package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/workers/docker"
	"github.com/diapause/diapause/workers/network"
)

func lifecycleCommands(c *client) []*cobra.Command {
	return []*cobra.Command{
		runCommand(c), desktopCommand(c), adoptCommand(c), suspendCommand(c), resumeCommand(c), ensureCommand(c), killCommand(c), removeCommand(c),
		checkpointCommand(c), forkCommand(c), rollbackCommand(c), acceptCommand(c), rejectCommand(c), dismissCommand(c), archiveCommand(c),
	}
}

// runFlags are the flags of run.
type runFlags struct {
	host                        string
	driver                      schemas.DriverName
	by                          schemas.MadeBy
	onLoss                      schemas.OnHostLoss
	onBreaker                   schemas.OnBreaker
	unresumable                 schemas.OnResume
	name, class, idle, template string
	dir, user, root, network    string
	env, allowOut, publish      []string
	memory, disk, pids          int64
	hookTimeout                 time.Duration
	cpus                        float64
	tty, attach, asJSON, noWait bool
	record, shells              string
	recordKeep                  int64
	interactive, detach         bool
	onSuspend, onResume, onFork string
	from                        string
	capAdd, capDrop             []string
	seccomp                     string
	noNewPrivs                  bool
	container                   containerFlags
	labels, hostLabels, apart   []string
	spread                      bool
}

const runHelp = `Start a session: a process tree with a private copy of the root file system, its
own process ids, and a life that suspends and resumes can't be seen in.

The command starts in the current directory with PATH, HOME, USER, SHELL, LANG and
TERM of the caller; --env adds to them. What it prints is kept ("diapause logs"),
the last 1 MiB of it. With --tty it has a terminal ("diapause attach"), which --attach
shows at once: Ctrl-] leaves it. All that it shows is recorded, encrypted, and so are
the commands that are typed in a shell ("diapause commands"), unless --record off says
not to. If no host has room, a session with a terminal waits for some ("diapause explain").

A session sees the host's files as they are, and keeps what it changes to itself.
It runs with its own process ids, mounts, IPC and network, with Docker's default limits
on capabilities and system calls, but with the host's kernel: it is no sandbox for code
that attacks kernels. What --cap-add or --seccomp allow besides, "diapause show" lists.

Its network leads out, and nothing leads in: a server at port 3000 is reached by
"diapause forward NAME 3000", or at 127.0.0.1:3000 with --publish 3000:3000. Of the
host it reaches no service; with --network host it shares the host's network.`

func runCommand(c *client) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use: "run --name NAME [flags] [--] CMD [ARG...]", Short: "Start a session", Long: runHelp,
		Example: "  diapause run --name work --attach -- bash\n  diapause run --name train --idle 5m --memory 2G -- python3 train.py\n  diapause run --name web --publish 3000:3000 -- npm run dev",
		Args: func(cmd *cobra.Command, args []string) error {
			if f.from != "" || f.container.Image != "" || strings.HasPrefix(f.root, rootImage) {
				return nil // it has a command of its own
			}
			return cobra.MinimumNArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.from != "" {
				return runFrom(cmd, c, f, args)
			}
			return runSession(cmd.Context(), c, f, args, cmd.Flags().Changed)
		},
	}
	f.orTemplate(c, cmd)
	fl := cmd.Flags()
	fl.SetInterspersed(false) // what follows the command's first word is its own
	fl.StringVar(&f.name, "name", "", "[tenant/]id of the session (required without --template)")
	fl.StringVar(&f.from, "from", "", "as the session `NAME` was run, in the directory that its terminal was in last: what that session was, it isn't")
	fl.StringVar(&f.class, "class", "", "web, terminal, automation, slack or desktop (default web, terminal with --tty)")
	fl.StringVar(&f.idle, "idle", "", "suspend after this time without use, e.g. 20s; or never (default: by class)")
	fl.StringVar((*string)(&f.by), "by", string(schemas.MadeByPerson), "person or agent")
	fl.BoolVarP(&f.tty, "tty", "t", false, "give it a terminal")
	f.addRecord(fl)
	fl.BoolVarP(&f.attach, "attach", "a", false, "give it a terminal and use it at once, as attach does")
	fl.BoolVar(&f.noWait, "no-wait", false, "with --tty: fail if no host has room; else it is made and waits for room")
	fl.BoolVarP(&f.interactive, "interactive", "i", false, "with --tty (-it): the same as --attach")
	fl.BoolVarP(&f.detach, "detach", "d", false, "return when it runs, as is done without --attach")
	fl.StringArrayVarP(&f.env, "env", "e", nil, "K=V, or K to copy the caller's")
	fl.StringVar(&f.dir, "cwd", "", "working directory inside the session (default: the current one)")
	fl.StringVarP(&f.dir, "workdir", "w", "", "the same as --cwd")
	fl.StringVar(&f.user, "user", "", "USER[:GROUP], each by its number or its name inside the session")
	fl.StringVar(&f.root, "root", "", "in place of the host's: a `DIR`, or a container image: oci:alpine:3, oci:tar:PATH, oci:layout:PATH, oci:engine:NAME")
	sizeVar(fl, &f.memory, "memory", "limit, e.g. 512M or 2G")
	sizeVar(fl, &f.disk, "disk", "limit on its own files, e.g. 10G")
	fl.Float64Var(&f.cpus, "cpus", 0, "limit, e.g. 1.5")
	fl.Int64Var(&f.pids, "pids", 0, "limit on the number of processes")
	fl.StringVar(&f.network, "network", "", "private, host or none (default: as `diapause up` says, private); with --image a network of the engine's, as --join")
	fl.StringSliceVar(&f.allowOut, "allow-out", nil, "with --network private: the only addresses that it reaches outside, `CIDR,...`, or none")
	fl.StringArrayVarP(&f.publish, "publish", "p", nil, "with --network private: a `[ADDR:]HOST:PORT` of this host, at 127.0.0.1 if not given, that leads to PORT; with --image [[ip:]port:]port[/proto], at every address")
	fl.StringArrayVar(&f.capAdd, "cap-add", nil, "a capability that it doesn't have by default, e.g. NET_ADMIN")
	fl.StringArrayVar(&f.capDrop, "cap-drop", nil, "a capability to take, or ALL")
	fl.StringVar(&f.seccomp, "seccomp", "", "unconfined, or a `FILE` with a profile in Docker's format")
	fl.BoolVar(&f.noNewPrivs, "no-new-privs", false, "programs gain nothing by being setuid")
	fl.StringVar((*string)(&f.driver), "driver", "", "how it runs and is captured (default: what the host has)")
	fl.StringVar(&f.host, "host", "", "where it begins (default: this one, or any that can)")
	fl.StringArrayVar(&f.labels, "label", nil, "a word of yours on it, `K=V`, by which ls --label finds it; a container has it, too")
	fl.StringArrayVar(&f.hostLabels, "host-label", nil, "run it, now and after each suspend, on hosts with this label alone, `K=V`: see worker --label")
	fl.BoolVar(&f.spread, "spread", false, "of the hosts that can take it, prefer those with the fewest running sessions of the tenant")
	fl.StringArrayVar(&f.apart, "apart-from", nil, "never run it on a host where the session `NAME` runs, nor that one where it runs")
	fl.StringVar((*string)(&f.onBreaker), "on-suspend-failure", "", "when three suspends in a row failed: keep it running, or stop it, and lose what it had since its last snapshot (default: as the policy says, keep)")
	fl.StringVar((*string)(&f.unresumable), "on-resume-failure", "", "when its snapshot is proven missing or damaged, or CRIU refuses it on every host that fits: keep it suspended, or start its command fresh at the next access; the snapshot is kept (default: as the policy says, keep)")
	fl.StringVar((*string)(&f.onLoss), "on-host-loss", string(schemas.LossWait), "when its host is gone: wait for it, or resume its last snapshot elsewhere")
	fl.StringVar(&f.onSuspend, "on-suspend", "", "command run in the session before it is frozen")
	fl.StringVar(&f.onResume, "on-resume", "", "command run in the session after a resume or rollback")
	fl.StringVar(&f.onFork, "on-fork", "", "command run in a fork of the session when it begins")
	durationVar(fl, &f.hookTimeout, "hook-timeout", hookTimeout, "time limit of each of these")
	f.container.add(fl)
	fl.BoolVar(&f.asJSON, "json", false, "print the session as JSON")
	groupFlags(cmd, []flagGroup{
		{"Flags for process trees", func(name string) bool { return slices.Contains(treeFlags, name) }},
		{"Flags for containers (--image)", func(name string) bool { return f.container.own.Lookup(name) != nil }},
	})
	return cmd
}

// treeFlags are the flags of run that only process trees have.
var treeFlags = []string{"allow-out", "disk", "record", "record-keep", "shell-integration", "root", "on-suspend", "on-resume", "on-fork", "hook-timeout", "seccomp", "no-new-privs"}

func runSession(ctx context.Context, c *client, f runFlags, command []string, changed func(flag string) bool) error {
	if f.name == "" {
		return usagef("run: give the session a name with --name, before the command")
	}
	if _, err := schemas.ParseName(f.name); err != nil {
		return usage(err)
	}
	if err := f.terminal(); err != nil {
		return err
	}
	if f.container.Image != "" && f.network != "" && f.network != schemas.NetworkHost && f.network != schemas.NetworkNone { // "private" is the name of one, too
		f.container.Networks, f.network = append(f.container.Networks, f.network), schemas.NetworkNone
	}
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
			return usagef("run: a container can't freeze itself when its host is lost").WithHint("leave --on-host-loss %s out", f.onLoss)
		}
		f.container.CapAdd, f.container.CapDrop, f.container.Publish, f.container.labels = f.capAdd, f.capDrop, f.publish, f.labels
		spec.CapAdd, spec.CapDrop = nil, nil
		if err := f.container.fill(&spec, changed, f.env); err != nil {
			return err
		}
	} else if err := f.ofTree(&spec); err != nil {
		return err
	}
	idle, err := parseIdle(f.idle)
	if err != nil {
		return err
	}
	placement, err := f.placement()
	if err != nil {
		return err
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("encode the command: %w", err)
	}
	return c.started(ctx, f, schemas.RunRequest{
		Class: f.class, Driver: f.driver, MadeBy: f.by, Idle: idle, TTY: f.tty, OnLoss: f.onLoss, OnBreaker: f.onBreaker, OnResume: f.unresumable, Host: schemas.HostID(f.host), Placement: placement, Program: program(command, spec), Spec: data, NoWait: f.noWait,
	})
}

// printReach tells a person how a server in a new session is reached: it may say of itself that it
// listens at localhost.
func printReach(v schemas.View) {
	if v.State == schemas.Running && v.Network == schemas.NetworkPrivate && len(v.Publish) == 0 && !v.TTY && term.IsTerminal(int(printed.to().Fd())) {
		fmt.Fprintf(printed, "it has a network of its own: `diapause forward %s PORT` reaches a port of it\n", v.Name)
	}
}

// terminal reads the flags that say who uses the session's terminal, and when.
func (f *runFlags) terminal() error {
	switch {
	case f.interactive && !f.tty && !f.attach:
		return usagef("run: -i is for a session with a terminal").WithHint("-it, or --attach, uses its terminal at once")
	case f.interactive && f.detach:
		f.interactive = false // docker run -dit: a terminal to attach to later
	case f.interactive:
		f.attach = true
	}
	switch {
	case f.attach && f.asJSON:
		return usagef("run: --attach shows the terminal, --json prints the session: leave one out")
	case f.attach && f.detach:
		return usagef("run: --attach uses the terminal at once, --detach doesn't: leave one out")
	}
	f.tty = f.tty || f.attach
	return nil
}

// program is what lists call a session's command.
func program(command []string, s schemas.Spec) string {
	if len(command) > 0 {
		return command[0]
	}
	if ref, ok := s.RootImage(); ok {
		return ref
	}
	o, _, _ := dockerspec.Of(s) // the command line wrote them
	return o.Image
}

func (f runFlags) spec(command []string) (schemas.Spec, error) {
	s := schemas.Spec{
		Command: command, Dir: f.dir, User: f.user, Root: f.root, TTY: f.tty, CPUs: f.cpus, Pids: f.pids, Network: f.network, AllowOut: f.allowOut, Record: f.record, RecordKeep: f.recordKeep,
		Hooks: schemas.Hooks{OnSuspend: f.onSuspend, OnResume: f.onResume, OnFork: f.onFork},
	}
	if s.Dir == "" && s.Root == "" {
		s.Dir, _ = os.Getwd() // "" is the root directory
	}
	if s.Network == "" && len(f.allowOut)+len(f.publish) > 0 && f.container.Image == "" {
		s.Network = schemas.NetworkPrivate // no other has them
	}
	if err := f.checkRecord(&s); err != nil {
		return s, err
	}
	if s.Network != "" && !slices.Contains(networks, s.Network) {
		return s, usagef("--network %q: want private, host or none", f.network).WithHint("with --image also a network of the engine's")
	}
	if len(f.allowOut) > 0 && s.Network != schemas.NetworkPrivate {
		return s, usagef("--allow-out is for --network private")
	}
	if _, err := network.ParseAllow(f.allowOut); err != nil {
		return s, usagef("--allow-out: %v", err)
	}
	if f.cpus < 0 || f.pids < 0 {
		return s, usagef("--cpus and --pids take positive numbers")
	}
	var err error
	if f.hookTimeout <= 0 {
		return s, usagef("--hook-timeout %s: want a duration above 0, such as 10s", f.hookTimeout)
	}
	s.Memory, s.Disk, s.Hooks.Timeout = f.memory, f.disk, f.hookTimeout
	s.CapAdd, s.CapDrop, s.NoNewPrivs = f.capAdd, f.capDrop, f.noNewPrivs
	if s.Seccomp, err = seccompProfile(f.seccomp); err != nil {
		return s, err
	}
	if s.Root, err = rootPath(f.root); err != nil {
		return s, err
	}
	if s.Labels, err = runLabels(f.labels, f.driver == docker.Name || f.container.Image != ""); err != nil {
		return s, err
	}
	own := ofShells
	if _, ok := s.RootImage(); ok {
		own = []string{"TERM"} // it says the others itself
	}
	if s.Env, err = environment(own, f.env); err != nil {
		return s, err
	}
	if f.tty {
		if cols, rows, err := term.GetSize(int(os.Stdin.Fd())); err == nil {
			s.Cols, s.Rows = uint16(cols), uint16(rows)
		}
	}
	return s, nil
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

// sessionVerb is a command that asks one verb of each session that is named, and prints
// what became of it.
type sessionVerb struct {
	verb, use, short string
	args             cobra.PositionalArgs // at least one session if nil
	fill             func(req *schemas.Request, args []string)
	// print prints for a person what became of a session; printOutcome if nil.
	print func(schemas.View)
	warns bool // it takes a snapshot, and prints what that warned of

	reason string
	asJSON bool
}

func (s sessionVerb) command(c *client) *cobra.Command {
	if s.args == nil {
		s.args = cobra.MinimumNArgs(1)
	}
	if s.print == nil {
		s.print = printOutcome
	}
	cmd := &cobra.Command{Use: s.use, Short: s.short, Args: s.args}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		names := args
		if !strings.Contains(s.use, "NAME...") {
			names = args[:1]
		}
		return forEach(cmd.Context(), names, s.asJSON, func(name string, a answers) error {
			req := schemas.Request{Name: name, Reason: s.reason}
			if s.fill != nil {
				s.fill(&req, args)
			}
			var v schemas.View
			if err := c.call(cmd.Context(), s.verb, req, &v); err != nil {
				return err
			}
			return a.print(v, func() {
				s.print(v)
				if s.warns {
					printWarnings(v)
				}
			})
		})
	}
	cmd.Flags().StringVar(&s.reason, "reason", "", "kept in the session's history")
	cmd.Flags().BoolVar(&s.asJSON, "json", false, jsonHelp)
	return cmd
}

// jsonHelp is the help of --json where a verb answers with a session.
const jsonHelp = "print the session as JSON; of several, one a line"

func suspendCommand(c *client) *cobra.Command {
	var reset bool
	cmd := sessionVerb{
		verb: "suspend", use: "suspend NAME...", short: "Write a session's image and free its memory", warns: true,
		fill: func(req *schemas.Request, _ []string) { req.Reset = reset },
	}.command(c)
	cmd.Flags().BoolVar(&reset, "reset", false, "not now: forget that suspends failed, so that it is suspended when it is idle")
	return cmd
}

func ensureCommand(c *client) *cobra.Command {
	return sessionVerb{verb: "ensure", use: "ensure NAME...", short: "Have a session running, resumed if need be, and wait for it"}.command(c)
}

func resumeCommand(c *client) *cobra.Command {
	var clean bool
	var as string
	var r replaceFlags
	cmd := sessionVerb{
		verb: "resume", use: "resume NAME...", short: "Resume a session from its last snapshot",
		fill: func(req *schemas.Request, _ []string) { req.Clean = clean },
	}.command(c)
	cmd.Flags().BoolVar(&clean, "clean", false, "start its command from the beginning; its memory stays in its snapshots")
	cmd.Flags().StringVar(&as, "as", "", "as a session of this name beside it, which stays as it is: the same as fork")
	r.add(cmd)
	resume := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := r.check(cmd, clean || as != ""); err != nil {
			return err
		}
		if len(args) > 1 && (r.replace || as != "") {
			return usagef("resume: --replace and --as take one session").WithHint("resume them one by one")
		}
		switch {
		case r.replace:
			return r.ask(cmd, c, args[0])
		case as == "":
			return resume(cmd, args)
		case clean:
			return usagef("resume: --as goes on from a snapshot, --clean from the beginning")
		}
		var v schemas.View
		if err := c.call(cmd.Context(), "fork", schemas.Request{Name: args[0], To: as}, &v); err != nil {
			return err
		}
		return answers{asJSON: cmd.Flag("json").Value.String() == "true"}.outcome(v)
	}
	return cmd
}

func checkpointCommand(c *client) *cobra.Command {
	var description, runID string
	cmd := sessionVerb{
		verb: "checkpoint", use: "checkpoint NAME...", short: "Take a snapshot of a session, which runs on", warns: true,
		fill:  func(req *schemas.Request, _ []string) { req.Description, req.RunID = description, runID },
		print: printCheckpoint,
	}.command(c)
	cmd.Flags().StringVar(&description, "description", "", "kept with the snapshot")
	cmd.Flags().StringVar(&runID, "run-id", "", "the caller's own id for it")
	return cmd
}

func forkCommand(c *client) *cobra.Command {
	var ports []string
	var snapshot string
	cmd := sessionVerb{
		verb: "fork", use: "fork NAME NEW", short: "Make a second session from a session's memory and files", args: cobra.ExactArgs(2), warns: true,
		fill: func(req *schemas.Request, args []string) {
			req.To, req.Publish, req.Snapshot = args[1], ports, snapshot
		},
	}.command(c)
	cmd.Flags().StringVar(&snapshot, "snapshot", "", "begin from this `SNAPSHOT` of the session, in place of what it is now")
	cmd.Flags().StringArrayVarP(&ports, "publish", "p", nil, "`[ADDR:]HOST:PORT` in place of the ports that the first publishes, or none")
	return cmd
}

func rollbackCommand(c *client) *cobra.Command {
	return sessionVerb{
		verb: "rollback", use: "rollback NAME SNAPSHOT", short: "Take a session back to a snapshot; what it is now becomes one first", args: cobra.ExactArgs(2), warns: true,
		fill: func(req *schemas.Request, args []string) { req.Snapshot = args[1] },
	}.command(c)
}

func killCommand(c *client) *cobra.Command {
	return sessionVerb{verb: "kill", use: "kill NAME...", short: "End a session's processes and keep its snapshots; what it had since the last one is lost"}.command(c)
}

// shredded says what can't be promised.
const shredded = `Copies of the session's keys, and of the store's objects together with an identity that
read them, can still be read: backups of the bucket or of the data directory's keys are
not touched. The log keeps how the session was started, sealed to those who read it then.`

func removeCommand(c *client) *cobra.Command {
	var yes, force, shred bool
	cmd := sessionVerb{
		verb: "rm", use: "rm NAME...", short: "End a session and delete its images",
		fill: func(req *schemas.Request, _ []string) { req.Shred = shred },
	}.command(c)
	cmd.Aliases = []string{"remove", "delete"}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "don't ask")
	cmd.Flags().BoolVarP(&force, "force", "f", false, "the same as --yes: a session that runs is ended first in any case")
	cmd.Flags().BoolVar(&shred, "shred", false, "have every host forget it as well, and record that it was shredded")
	cmd.PostRun = func(*cobra.Command, []string) {
		if shred {
			fmt.Fprintln(complained, shredded)
		}
	}
	cmd.PreRunE = func(_ *cobra.Command, args []string) error {
		if yes || force {
			return nil
		}
		return confirm(args)
	}
	return cmd
}

// confirm asks the person at the terminal whether sessions are to be deleted.
func confirm(names []string) error {
	what, images := "session "+names[0], "its"
	if len(names) > 1 {
		what, images = "sessions "+strings.Join(names, ", "), "their"
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return usagef("rm deletes %s and all %s images for good", what, images).WithHint("confirm with --yes")
	}
	fmt.Fprintf(complained, "Delete %s and all %s images for good? [y/N] ", what, images)
	line, _ := bufio.NewReader(os.Stdin).ReadString('\n') // no answer is no
	if a := strings.ToLower(strings.TrimSpace(line)); a != "y" && a != "yes" {
		return usagef("%s: left as before", what)
	}
	return nil
}
