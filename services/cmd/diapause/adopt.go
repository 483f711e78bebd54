package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/adoptspec"
	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/workers/adopted"
	"github.com/diapause/diapause/workers/criu"
	"github.com/diapause/diapause/workers/driver"
)

const adoptHelp = `Make a session of a container that is there already, and runs or not, or of a process and all
that it has started. It goes on undisturbed, and is suspended and resumed as every other session.

Of a container, suspending it stores what changed in its file system, the contents of its
volumes and its configuration, stops it, and keeps it stopped without its restart policy;
resuming it makes a new container of the same name, with its restart policy. With --remove
it is removed when it is suspended. One that doesn't run comes back so. Its memory is lost
with each suspend: its command starts again, on the files that it had. "diapause rm" ends
it, and leaves a container that wasn't removed where it is, stopped.

A session of that name that doesn't run goes on with the container, if its own one was
removed or is this one. Its snapshots, class and idle rule stay; "diapause rollback" goes
back to a snapshot.

Of a process (--pid), suspending it stores the memory of its tree and ends it; resuming it
brings it back with the same pids, on this host alone. Its files stay the host's, and nothing
isolates it. What will not come back is printed first; --dry-run prints that and does nothing.
What can't be captured is refused by name. "diapause rm" ends it.`

// adoptFlags are the flags of adopt.
type adoptFlags struct {
	container    containerFlags
	pid          int
	name, idle   string
	run          schemas.RunRequest
	dry, asJSON  bool
	ofContainers []string // the flags that a process doesn't have
}

func adoptCommand(c *client) *cobra.Command {
	f := adoptFlags{ofContainers: []string{"remove", "bind", "shared-volumes", "host"}}
	cmd := &cobra.Command{
		Use: "adopt --container CONTAINER|--pid PID [--name NAME]", Short: "Make a session of a container or process that runs", Long: adoptHelp, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if f.run.Idle, err = parseIdle(f.idle); err != nil {
				return err
			}
			if cmd.Flags().Changed("pid") {
				return f.process(cmd, c)
			}
			return f.ofContainer(cmd.Context(), c)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.container.Container, "container", "", "its name or id")
	fl.IntVar(&f.pid, "pid", 0, "the first `PID` of a process tree on this machine")
	fl.StringVar(&f.name, "name", "", "[tenant/]id of the session (default: the container's name, or the program's with its pid)")
	fl.StringVar(&f.run.Class, "class", "", "web, terminal, automation, slack or desktop (default web)")
	fl.StringVar(&f.idle, "idle", "", "suspend after this time without use, e.g. 20s; or never (default: by class)")
	fl.StringVar((*string)(&f.run.Host), "host", "", "the host that a container is on (default: this one)")
	fl.BoolVar(&f.container.Remove, "remove", false, "remove a container when it is suspended, rather than hold it stopped")
	fl.BoolVar(&f.dry, "dry-run", false, "of a process: print what would not come back or why it is refused, and do nothing")
	fl.BoolVar(&f.asJSON, "json", false, "print the session as JSON, or with --dry-run what that says")
	f.container.addKept(fl)
	return cmd
}

// ofContainer makes a session of a container.
func (f *adoptFlags) ofContainer(ctx context.Context, c *client) error {
	switch {
	case f.container.Container == "":
		return usagef("adopt: name the container with --container, or the process with --pid")
	case f.dry:
		return usagef("adopt: --dry-run is for processes (--pid)")
	case f.name == "":
		f.name = f.container.Container
	}
	return f.ask(ctx, c, dockerspec.Request(f.run, f.container.Options))
}

// ask has the API make the session.
func (f *adoptFlags) ask(ctx context.Context, c *client, run *schemas.RunRequest) error {
	if _, err := schemas.ParseName(f.name); err != nil {
		return usage(schemas.WithHint(err, "give the session a name with --name"))
	}
	var v schemas.View
	if err := c.call(ctx, "run", schemas.Request{Name: f.name, Run: run}, &v); err != nil {
		return err
	}
	return answers{asJSON: f.asJSON}.outcome(v)
}

// process makes a session of a process tree of this machine.
func (f *adoptFlags) process(cmd *cobra.Command, c *client) error {
	for _, flag := range append(f.ofContainers, "container") {
		if cmd.Flags().Changed(flag) {
			return usagef("adopt: --%s is for containers, not for a process", flag)
		}
	}
	if f.pid <= 0 {
		return usagef("adopt: --pid %d is no process", f.pid)
	}
	o, plan, err := lookAt(cmd.Context(), f.pid)
	if err != nil {
		return err
	}
	switch {
	case f.dry:
		if err := (answers{asJSON: f.asJSON}).print(plan, func() { fmt.Fprint(printed, plan.text()) }); err != nil {
			return err
		}
		if len(plan.Refused) > 0 {
			return reported{schemas.FailedError("", "process %d can't be adopted", f.pid)} // what was printed says why
		}
		return nil
	case len(plan.Refused) > 0:
		return schemas.FailedError("", "%v", &driver.Error{Text: fmt.Sprintf("process %d can't be adopted", f.pid), Blockers: plan.Refused})
	}
	fmt.Fprint(complained, plan.text())
	if f.name == "" {
		f.name = fmt.Sprintf("%s-%d", token(plan.Comm), f.pid)
	}
	return f.ask(cmd.Context(), c, adoptspec.Request(f.run, plan.Comm, o))
}

// plan is what adopting a process means.
type plan struct{ adopted.Plan }

// lookAt looks at a process, and gives how the driver is to know it again.
func lookAt(ctx context.Context, pid int) (o adoptspec.Options, p plan, err error) {
	if os.Geteuid() != 0 {
		return o, p, schemas.FailedError("", "look at process %d: that takes root", pid).WithHint("run adopt with sudo")
	}
	command, _ := criu.Find() // without one the host says what is missing
	if p.Plan, err = adopted.Examine(ctx, pid, command, os.Getpid()); err == nil {
		o.Boot, err = adopted.MachineBoot()
	}
	if err != nil {
		return o, p, schemas.FailedError("", "adopt: %v", err)
	}
	o.PID, o.Start = pid, p.Start
	return o, p, nil
}

// text says the plan to a person.
func (p plan) text() string {
	var out strings.Builder
	line := func(title, text string) { fmt.Fprintf(&out, "%-10s %s\n", title, text) }
	line("process", strconv.Itoa(p.PID)+": "+clean(p.Program))
	line("processes", strconv.Itoa(len(p.Pids))+", of user "+strconv.Itoa(int(p.User)))
	for i, b := range p.Refused {
		line(map[bool]string{true: "refused"}[i == 0], clean(b.String()))
	}
	for i, s := range p.Lost {
		line(map[bool]string{true: "note"}[i == 0], clean(s))
	}
	return out.String()
}

// token makes a part of a session's name of a program's.
func token(comm string) string {
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune("-_", r) || r < 128 && (r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
			return r
		}
		return '-'
	}, comm)
	if name = strings.Trim(name, "-_"); name == "" {
		return "process"
	}
	return name
}
