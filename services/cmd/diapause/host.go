package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/schemas"
)

const hostHelp = `Look at the hosts, and take one out of service.

  diapause host ls            list the hosts, what they have and how full they are
  diapause host cordon b      no session comes to host b any more; those there run on
  diapause host drain b       cordon it, and suspend or move what runs there
  diapause host uncordon b    use it again
  diapause host rm b          forget a host that is gone for good`

func hostCommand(c *client) *cobra.Command {
	cmd := &cobra.Command{Use: "host", Short: "Look at the hosts, and take one out of service", Long: hostHelp}
	cmd.AddCommand(
		reading(c, "host_ls", "ls", "List the hosts, what they have and how full they are", cobra.NoArgs, printHosts),
		hostVerb(c, "host_show", "show HOST", "Show a host and its sessions", "", printHost),
		hostVerb(c, "host_cordon", "cordon HOST", "Have a host take no sessions; those there run on", cordonHelp, func(v schemas.HostView) {
			fmt.Fprintf(printed, "host %s is cordoned; %s there\n", v.Host.Host, runOnIn(v.Running))
		}),
		hostVerb(c, "host_uncordon", "uncordon HOST", "Have a host take sessions again", "", func(v schemas.HostView) {
			fmt.Fprintf(printed, "host %s takes sessions\n", v.Host.Host)
		}),
		drainCommand(c),
		hostVerb(c, "host_rm", "rm HOST", "Forget a host that is gone for good, and the orders about it", hostRemoveHelp, func(v schemas.HostView) {
			fmt.Fprintf(printed, "host %s is removed\n", v.Host.Host)
			if v.Suspended > 0 {
				fmt.Fprintf(printed, "%s that it had suspended: other hosts resume them\n", count(v.Suspended, "session"))
			}
		}),
	)
	return cmd
}

const cordonHelp = `Have a host take no new sessions, no resumes and no moves. What runs there runs on. A
session that it suspended is resumed on another host. "host uncordon" ends that.`

const hostRemoveHelp = `Forget a host that is gone for good: its worker was stopped, or its lease has run out.
It is refused while sessions are left there that aren't suspended. A host that comes back
announces itself again.`

func runOnIn(n int) string {
	if n == 1 {
		return "1 session runs on"
	}
	return fmt.Sprintf("%d sessions run on", n)
}

// hostVerb makes a command that asks a verb about one host.
func hostVerb(c *client, verb, use, short, long string, text func(schemas.HostView)) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Args: cobra.ExactArgs(1), ValidArgsFunction: completeHost(c),
		RunE: func(cmd *cobra.Command, args []string) error {
			var v schemas.HostView
			if err := c.call(cmd.Context(), verb, schemas.Request{Host: schemas.HostID(args[0])}, &v); err != nil {
				return err
			}
			return answers{asJSON: asJSON}.print(v, func() { text(v) })
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the host as JSON")
	return cmd
}

// completeHost has a shell complete the HOST of a command.
func completeHost(c *client) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(context.Background(), completing)
		defer cancel()
		var all []schemas.HostView
		if len(args) > 0 || c.call(ctx, "host_ls", schemas.Request{}, &all) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []cobra.Completion
		for _, v := range all {
			names = append(names, cobra.CompletionWithDesc(string(v.Host.Host), hostStatus(v)))
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// hostStatus says in a word or two how a host is.
func hostStatus(v schemas.HostView) string {
	status := "up"
	if !v.Alive {
		status = "gone"
	}
	switch o := v.Order; {
	case o == nil:
	case o.Draining && v.Empty:
		status += ", drained"
	case o.Draining:
		status += ", draining"
	default:
		status += ", cordoned"
	}
	return status
}

func printHosts(all []schemas.HostView) {
	w := tabwriter.NewWriter(printed, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "HOST\tSTATUS\tRUNNING\tSLOTS\tSUSPENDED\tMEMORY\tDRIVERS\tLABELS\tVERSION")
	for _, v := range all {
		var drivers []string
		for _, fp := range v.Fingerprints {
			drivers = append(drivers, string(fp.Driver))
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%d\t%s\t%s\t%s\t%s\n", v.Host.Host, hostStatus(v), v.Running, slotsOf(v), v.Suspended, loadOf(v),
			orDash(strings.Join(drivers, ",")), orDash(labelsOf(v.Labels)), orDash(v.Version))
	}
	w.Flush()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func slotsOf(v schemas.HostView) string {
	if v.Slots == 0 {
		return "no limit"
	}
	return fmt.Sprint(v.Slots)
}

func loadOf(v schemas.HostView) string {
	if v.Load == nil {
		return "-"
	}
	return size(v.Load.MemoryBytes-v.Load.AvailableBytes) + " of " + size(v.Load.MemoryBytes)
}

func labelsOf(labels map[string]string) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, k+"="+schemas.Shown(labels[k]))
	}
	return strings.Join(all, ",")
}

func printHost(v schemas.HostView) {
	w := tabwriter.NewWriter(printed, 0, 0, 2, ' ', 0)
	line := func(key, format string, args ...any) { fmt.Fprintf(w, key+"\t"+format+"\n", args...) }
	line("host", "%s", v.Host.Host)
	line("status", "%s", hostStatus(v))
	if v.GoneSince != nil {
		line("gone since", "%s", v.GoneSince.Format(time.RFC3339))
	}
	if o := v.Order; o != nil {
		line("ordered", "%s by %s", o.Since.Format(time.RFC3339), o.By)
	}
	line("version", "%s", orDash(v.Version))
	line("labels", "%s", orDash(labelsOf(v.Labels)))
	slots := slotsOf(v)
	if v.SlotsBy != "" {
		slots += " (" + v.SlotsBy + ")"
	}
	line("sessions", "%d running, %d suspended, slots: %s", v.Running, v.Suspended, slots)
	if v.Load != nil {
		line("memory", "%s in use, pressure %.0f%%", loadOf(v), 100*v.Load.Pressure)
		if v.Load.DiskBytes > 0 {
			line("disk", "%s free of %s", size(v.Load.DiskFreeBytes), size(v.Load.DiskBytes))
		}
	}
	for _, fp := range v.Fingerprints {
		line("driver", "%s: %s", fp.Driver, strings.Join(slices.DeleteFunc([]string{fp.Engine, fp.Arch, "kernel " + fp.Kernel, "root " + fp.Base}, emptyPart), ", "))
		for _, is := range []struct{ what, prefix string }{{"cpu", ""}, {"images", schemas.DiapauseNeed}, {"patches", schemas.CriuNeed}} {
			if names := fp.Needs(is.prefix); len(names) > 0 {
				line(is.what, "%s", strings.Join(names, " "))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.Lacks)) {
		line("no driver", "%s: %s", name, v.Lacks[name])
	}
	w.Flush()
	printLeft(printed, v.Left)
}

// emptyPart reports whether a part of a fingerprint says nothing.
func emptyPart(s string) bool { return s == "" || strings.HasSuffix(s, " ") }

func printLeft(out io.Writer, left []schemas.HostLeft) {
	for _, l := range left {
		text := fmt.Sprintf("%s is %s", l.Name, l.State)
		if l.Step != "" {
			text += ", " + l.Step
		}
		if l.Why != "" {
			text += ": " + l.Why
		}
		fmt.Fprintln(out, text)
	}
}

const drainHelp = `Take a host out of service: cordon it, suspend or move what runs there, and wait
until nothing is left.

A session that isn't in use is suspended; its next use resumes it on another host. One
that is run with --idle never is moved. One that is in use (activity within its grace, a
lease, an attached terminal) is waited for. With --force it is moved, or suspended if no
other host can take it. What fails is tried again.

A process tree goes on where it was. A container's program starts again when it comes
back on another host (boot "restart"); its files and volumes come along.

The drain goes on if this command is interrupted, until "host uncordon".`

func drainCommand(c *client) *cobra.Command {
	var force, asJSON bool
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "drain HOST", Short: "Cordon a host, and suspend or move what runs there", Long: drainHelp, Args: cobra.ExactArgs(1), ValidArgsFunction: completeHost(c),
		RunE: func(cmd *cobra.Command, args []string) error {
			d := drainWait{c: c, host: schemas.HostID(args[0]), quiet: asJSON}
			if cmd.Flags().Changed("wait") {
				d.until = time.Now().Add(wait)
			}
			v, err := d.run(cmd.Context(), force)
			if err != nil {
				return err
			}
			return answers{asJSON: asJSON}.print(v, func() {
				if v.Empty {
					fmt.Fprintf(printed, "host %s is drained\n", v.Host.Host)
					return
				}
				fmt.Fprintf(printed, "host %s is being drained; `diapause host show %s` says what is left\n", v.Host.Host, v.Host.Host)
			})
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "also what is in use, and what lacks another host")
	durationVar(cmd.Flags(), &wait, "wait", 0, "how long to wait until nothing is left; 0 returns at once (default: as long as it takes)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the host as JSON when that is over, and no progress")
	return cmd
}

// drainLook is how often a drain's progress is asked for.
const drainLook = 500 * time.Millisecond

// drainWait orders a drain and waits for it.
type drainWait struct {
	c     *client
	host  schemas.HostID
	until time.Time // no limit if zero
	quiet bool
	told  map[string]string // what was printed of each session last
}

func (d *drainWait) run(ctx context.Context, force bool) (v schemas.HostView, err error) {
	began := time.Now()
	req := schemas.Request{Host: d.host, Force: force}
	if err := d.c.call(ctx, "host_drain", req, &v); err != nil {
		return v, err
	}
	for {
		d.progress(v)
		if v.Empty || !d.until.IsZero() && d.until.Before(began.Add(drainLook)) {
			return v, nil
		}
		if v.Order == nil || !v.Order.Draining {
			return v, schemas.StateError(schemas.ReasonUndone, "host %s isn't drained any more: it was uncordoned", d.host)
		}
		if !d.until.IsZero() && time.Now().After(d.until) {
			return v, (&schemas.APIError{
				Code: schemas.CodeTimeout, Text: fmt.Sprintf("host %s isn't empty yet: %s left", d.host, count(len(v.Left), "session")),
			}).WithHint("the drain goes on; `diapause host show %s` says what it waits for, --force doesn't wait for use", d.host)
		}
		select {
		case <-time.After(drainLook):
		case <-ctx.Done():
			return v, ctx.Err()
		}
		var next schemas.HostView
		if err := d.c.call(ctx, "host_show", schemas.Request{Host: d.host}, &next); err == nil {
			v = next
		} else if refused := (*schemas.APIError)(nil); errors.As(err, &refused) && refused.Reason == schemas.ReasonNoHost {
			return v, err
		}
	}
}

// progress prints what has changed.
func (d *drainWait) progress(v schemas.HostView) {
	if d.quiet {
		return
	}
	now := map[string]string{}
	for _, l := range v.Left {
		now[l.Name] = string(l.State) + l.Step + l.Why
		if d.told[l.Name] != now[l.Name] {
			printLeft(printed, []schemas.HostLeft{l})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.told)) {
		if _, there := now[name]; !there {
			fmt.Fprintf(printed, "%s is off the host; %d left\n", name, len(v.Left))
		}
	}
	d.told = now
}

const moveHelp = `Take a session to another host: suspend it and resume it there, by one operation.

Without --host the host is chosen as for a new session. If the session can't be resumed
there, it goes on where it was, and the error says why. A suspended session is resumed on
the other host.

A process tree goes on where it was; its connections to the outside end. A container's
program starts again (boot "restart"); its files and volumes come along. Use doesn't
undo a move.`

func moveCommand(c *client) *cobra.Command {
	var host string
	cmd := sessionVerb{
		verb: "move", use: "move NAME", short: "Take a session to another host",
		fill: func(req *schemas.Request, _ []string) { req.Host = schemas.HostID(host) },
	}.command(c)
	cmd.Long = moveHelp
	cmd.Flags().StringVar(&host, "host", "", "where to (default: any that can take it)")
	return cmd
}

// printMoved tells how a move went.
func printMoved(v schemas.View) {
	if m := v.Moved; m != nil && m.FrozenMS > 0 {
		fmt.Fprintf(printed, "it moved from host %s to host %s and stood still for %s\n", m.From, m.To, time.Duration(m.FrozenMS)*time.Millisecond)
	} else if m != nil {
		fmt.Fprintf(printed, "it moved from host %s to host %s, and was suspended before\n", m.From, m.To)
	}
}

// placement is what the flags ask of the session's hosts; nil if that is nothing.
func (f runFlags) placement() (*schemas.Placement, error) {
	labels, err := parseLabels("host-label", f.hostLabels)
	if err != nil {
		return nil, err
	}
	p := &schemas.Placement{Labels: labels, Spread: f.spread}
	own, _ := schemas.ParseName(f.name)
	for _, other := range f.apart {
		n, err := schemas.ParseName(other)
		if err == nil && !strings.Contains(other, "/") {
			n.Tenant = own.Tenant
		}
		if err != nil || n.Tenant != own.Tenant || n == own {
			return nil, usagef("--apart-from %q: want the name of another session of the same tenant", other)
		}
		p.Apart = append(p.Apart, n.Session)
	}
	if p.Labels == nil && !p.Spread && p.Apart == nil {
		return nil, nil
	}
	return p, nil
}

// placementLine says what a session asks of its hosts.
func placementLine(p *schemas.Placement) string {
	var all []string
	if len(p.Labels) > 0 {
		all = append(all, "hosts with "+labelsOf(p.Labels))
	}
	for _, other := range p.Apart {
		all = append(all, "apart from "+string(other))
	}
	if p.Spread {
		all = append(all, "spread")
	}
	return strings.Join(all, ", ")
}
