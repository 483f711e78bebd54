package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/desktop"
)

const desktopHelp = `Start a desktop: a display of its own with a window manager, an application and a VNC server, in one session that is
suspended and resumed with all that is open on it.

A VNC viewer finds it at 127.0.0.1 on its host, at the port that "diapause show" has as vnc_port, which stays the same
for good. Every user of the host reaches that port, and needs no password: with --vnc-port none there is none, and
"diapause forward NAME 5900" leads to it. A viewer that is connected counts as use.

It needs Xvnc and a window manager, which "diapause doctor" names. --app starts an application with what it needs to be
suspended: for firefox and chromium that is without their own sandboxes, so that a page which breaks out of the
browser has the whole session. Words after -- are its arguments, or without --app a command of yours. The desktop stays
when the application is closed.`

// hookTimeout is the usual time limit of a hook.
const hookTimeout = 10 * time.Second

// desktopFlags are the flags of desktop.
type desktopFlags struct {
	run       runFlags
	size, app string
	vncPort   string
}

func desktopCommand(c *client) *cobra.Command {
	f := desktopFlags{run: runFlags{by: schemas.MadeByPerson, shells: schemas.On, hookTimeout: hookTimeout}}
	cmd := &cobra.Command{
		Use: "desktop --name NAME [flags] [--] [CMD [ARG...]]", Short: "Start a desktop that VNC viewers look at", Long: desktopHelp,
		Example: "  diapause desktop --name desk --app firefox -- https://example.com\n  diapause desktop --name small --size 800x600 -- xterm -e top",
		RunE:    func(cmd *cobra.Command, args []string) error { return f.start(cmd.Context(), c, args) },
	}
	r, fl := &f.run, cmd.Flags()
	r.container.own = pflag.NewFlagSet("", pflag.ContinueOnError) // it has none
	fl.SetInterspersed(false)                                     // what follows the command's first word is its own
	fl.StringVar(&r.name, "name", "", "[tenant/]id of the session (required)")
	fl.StringVar(&f.size, "size", schemas.DesktopSize, "of the display, WIDTHxHEIGHT in pixels; viewers can change it")
	fl.StringVar(&f.app, "app", "", "firefox, chromium or xterm, with what it needs to be suspended")
	fl.StringVar(&f.vncPort, "vnc-port", "", "the `PORT` of 127.0.0.1 on its host that leads to it, or none (default: one that no session has)")
	fl.StringVar(&r.idle, "idle", "", "suspend after this time without use, e.g. 20s; or never (default: as the class desktop)")
	fl.StringArrayVarP(&r.env, "env", "e", nil, "K=V, or K to copy the caller's")
	fl.StringVar(&r.dir, "cwd", "", "working directory inside the session (default: the current one)")
	fl.StringVar(&r.user, "user", "", "USER[:GROUP], each by its number or its name inside the session")
	fl.StringVar(&r.root, "root", "", "in place of the host's: a `DIR`, or a container image: oci:NAME")
	sizeVar(fl, &r.memory, "memory", "limit, e.g. 512M or 2G")
	sizeVar(fl, &r.disk, "disk", "limit on its own files, e.g. 10G")
	fl.Float64Var(&r.cpus, "cpus", 0, "limit, e.g. 1.5")
	fl.StringSliceVar(&r.allowOut, "allow-out", nil, "the only addresses that it reaches outside, `CIDR,...`, or none")
	fl.StringArrayVarP(&r.publish, "publish", "p", nil, "a `[ADDR:]HOST:PORT` of this host that leads to another port of it")
	fl.StringVar(&r.host, "host", "", "where it begins (default: this one, or any that can)")
	fl.StringArrayVar(&r.labels, "label", nil, "a word of yours on it, `K=V`, by which ls --label finds it")
	fl.BoolVar(&r.asJSON, "json", false, "print the session as JSON")
	return cmd
}

// start starts the desktop.
func (f *desktopFlags) start(ctx context.Context, c *client, command []string) error {
	if f.run.name == "" {
		return usagef("desktop: give the session a name with --name, before the command")
	}
	if _, err := schemas.ParseName(f.run.name); err != nil {
		return usage(err)
	}
	if f.app == "" && len(command) == 0 {
		return usagef("desktop: name what runs on it").WithHint("--app firefox, or a command")
	}
	d := schemas.DesktopRequest{Size: f.size, App: f.app}
	if err := f.port(&d); err != nil {
		return err
	}
	f.run.network = schemas.NetworkPrivate
	spec, err := f.run.spec(command)
	if err != nil {
		return err
	}
	if err := f.run.ofTree(&spec); err != nil {
		return err
	}
	idle, err := parseIdle(f.run.idle)
	if err != nil {
		return err
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("encode the command: %w", err)
	}
	return c.started(ctx, f.run, schemas.RunRequest{MadeBy: f.run.by, Idle: idle, Host: schemas.HostID(f.run.host), Spec: data, Desktop: &d})
}

// port reads the size, the app and --vnc-port.
func (f *desktopFlags) port(d *schemas.DesktopRequest) error {
	if _, _, err := schemas.ParseDesktopSize(f.size); err != nil {
		return usagef("--size: %v", err)
	}
	if f.app != "" && !desktop.Known(f.app) {
		return usagef("--app %q: want firefox, chromium or xterm", f.app)
	}
	switch f.vncPort {
	case "":
	case "none":
		d.Unpublished = true
	default:
		n, err := strconv.ParseUint(f.vncPort, 10, 16)
		if err != nil || n == 0 {
			return usagef("--vnc-port %q: want a port, or none", f.vncPort)
		}
		d.VNCPort = uint16(n)
	}
	return nil
}

// desktopLine says how a desktop is looked at.
func desktopLine(v schemas.View) string {
	d := v.Desktop
	text := fmt.Sprintf("%s, display %s", d.Size, d.Display)
	if d.VNCPort != 0 {
		return text + fmt.Sprintf(", VNC at 127.0.0.1:%d of its host", d.VNCPort)
	}
	return text + fmt.Sprintf(", VNC by `diapause forward %s %d`", v.Name, d.Port)
}
