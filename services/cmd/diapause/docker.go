package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/datadir"
	"github.com/diapause/diapause/workers/docker"
	"github.com/diapause/diapause/workers/worker"
)

// usualEngine is where Docker's engine listens if nobody says otherwise.
const usualEngine = "unix:///var/run/docker.sock"

func dockerFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "docker", os.Getenv("DIAPAUSE_DOCKER"),
		"the Docker engine whose containers can be sessions, unix:///path/of/its/socket, or none (default: "+usualEngine+", if that is there) (DIAPAUSE_DOCKER)")
}

// engineAt gives the engine that is to be used; "" is none, and why.
func engineAt(asked string) (engine, why string) {
	if asked == "none" {
		return "", "`--docker none` was asked for"
	}
	if asked != "" {
		return asked, ""
	}
	if _, err := os.Stat(strings.TrimPrefix(usualEngine, "unix://")); err != nil {
		return "", "no Docker engine was at " + usualEngine + " (`--docker` names another)"
	}
	return usualEngine, ""
}

// withDocker gives the worker the docker driver, if this host has an engine, and what
// makes sessions of the containers that ask for it.
func withDocker(w *worker.Worker, engine string, data *datadir.Dir, nc *nats.Conn, log *slog.Logger) (func(context.Context) error, error) {
	engine, why := engineAt(engine)
	if engine == "" {
		w.Lacks = map[string]string{docker.Name: why}
		return nil, nil
	}
	d, err := docker.New(docker.Options{
		Engine: engine, Data: filepath.Join(data.Path(), "docker"), Instance: string(data.Host()), Log: log, Failpoints: w.Failpoints,
	})
	if err != nil {
		return nil, usagef("--docker: %v", err)
	}
	w.Drivers[docker.Name] = d
	return func(ctx context.Context) error { return adoptLabelled(ctx, w, d, nc, log) }, nil
}

// containerFlags are the flags of run that only containers have.
type containerFlags struct {
	schemas.Docker
	shm, healthEach string
	entrypoint      string
	labels          []string

	own *pflag.FlagSet
}

// add adds the flags that describe a new container, as `docker run` has them.
func (f *containerFlags) add(fl *pflag.FlagSet) {
	f.own = pflag.NewFlagSet("container", pflag.ContinueOnError)
	f.define(f.own)
	fl.AddFlagSet(f.own)
}

// refuse is the answer to any of these flags where there is no container.
func (f *containerFlags) refuse() (err error) {
	f.own.VisitAll(func(fl *pflag.Flag) {
		if fl.Changed && err == nil {
			err = usagef("--%s is for containers: name the image of one with --image", fl.Name)
		}
	})
	return err
}

func (f *containerFlags) define(fl *pflag.FlagSet) {
	fl.StringVar(&f.Image, "image", "", "run it as a container of this `IMAGE`, by the docker driver; many of the flags here are those of docker run")
	fl.StringVar(&f.Docker.Name, "container-name", "", "what the container is called (default: diapause-TENANT-ID)")
	fl.StringVar(&f.entrypoint, "entrypoint", "", "in place of the image's")
	fl.StringArrayVarP(&f.Volumes, "volume", "v", nil, "NAME:/path[:ro], /host/path:/path[:ro], or /path")
	fl.StringArrayVar(&f.Tmpfs, "tmpfs", nil, "/path[:options]; its contents are lost with each suspend")
	fl.StringArrayVarP(&f.Publish, "publish", "p", nil, "[[ip:]port:]port[/proto]")
	fl.StringArrayVar(&f.Networks, "join", nil, "a network of the engine's; may be given several times")
	fl.StringArrayVar(&f.Aliases, "network-alias", nil, "a name in these networks")
	fl.StringVar(&f.Restart, "restart", "", "no, always, unless-stopped, on-failure[:n]")
	fl.StringArrayVar(&f.labels, "label", nil, "K=V")
	fl.StringArrayVar(&f.Ulimits, "ulimit", nil, "name=soft[:hard]")
	fl.StringArrayVar(&f.CapAdd, "cap-add", nil, "a capability")
	fl.StringArrayVar(&f.CapDrop, "cap-drop", nil, "a capability")
	fl.StringArrayVar(&f.Devices, "device", nil, "/dev/x[:/dev/y[:rwm]]")
	fl.StringArrayVar(&f.ExtraHosts, "add-host", nil, "name:ip")
	fl.StringVar(&f.Hostname, "hostname", "", "inside the container")
	fl.BoolVar(&f.ReadOnly, "read-only", false, "its own file system can't be written to")
	fl.BoolVar(&f.Init, "init", false, "an init process reaps children")
	fl.StringVar(&f.shm, "shm-size", "", "of /dev/shm, e.g. 64M")
	fl.StringVar(&f.HealthCmd, "health-cmd", "", "command that says whether it is well")
	fl.StringVar(&f.healthEach, "health-interval", "", "time between two of these, e.g. 30s")
	f.addKept(fl)
}

// addKept adds the flags that say what of a container is captured and restored.
func (f *containerFlags) addKept(fl *pflag.FlagSet) {
	fl.BoolVar(&f.Binds, "bind", false, "capture the contents of bind mounts, too")
	fl.BoolVar(&f.SharedVolumes, "shared-volumes", false, "replace volumes that other containers use, too, when it goes on from a snapshot")
}

// fill puts what was asked for into the spec of a container.
func (f *containerFlags) fill(s *schemas.Spec, changed func(flag string) bool, env []string) (err error) {
	d := f.Docker
	if f.entrypoint != "" {
		d.Entrypoint = []string{f.entrypoint}
	}
	if d.ShmSize, err = parseSize(f.shm); err != nil {
		return usagef("--shm-size: %v", err)
	}
	if f.healthEach != "" {
		if d.HealthEach, err = time.ParseDuration(f.healthEach); err != nil {
			return usagef("--health-interval %q: want a duration such as 30s", f.healthEach)
		}
	}
	for _, l := range f.labels {
		k, v, _ := strings.Cut(l, "=")
		if d.Labels == nil {
			d.Labels = map[string]string{}
		}
		d.Labels[k] = v
	}
	s.Docker = &d
	// The image says what nobody asked for.
	s.Env, err = given(env)
	if !changed("cwd") {
		s.Dir = ""
	}
	if !changed("network") {
		s.Network = ""
	}
	if err == nil {
		err = docker.Check(*s)
	}
	if err != nil {
		return usageError{err}
	}
	return nil
}

// given are environment variables that were asked for by K=V, or K to copy the caller's.
func given(env []string) ([]string, error) {
	var out []string
	for _, e := range env {
		k, _, set := strings.Cut(e, "=")
		if !set {
			v, ok := os.LookupEnv(k)
			if !ok {
				return nil, fmt.Errorf("--env %s: it is not set here", k)
			}
			e = k + "=" + v
		}
		out = append(out, e)
	}
	return out, nil
}

const adoptHelp = `Make a session of a container that is there already, and runs or not. It goes on
undisturbed, and is suspended and resumed as every other session: suspending it stores
what changed in its file system, the contents of its volumes and its configuration, stops
it, and keeps it stopped with its restart policy set aside; resuming it makes it anew,
under its own name, with its restart policy. With --remove it is removed when it is
suspended. One that doesn't run comes back so.

Its memory is lost with each suspend: its command begins anew, on the files that it had.
"diapause rm" ends it, and leaves a container that wasn't removed where it is, stopped.`

func adoptCommand(c *client) *cobra.Command {
	var f containerFlags
	var r schemas.RunRequest
	var name, idle string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "adopt --container CONTAINER [--name NAME]", Short: "Make a session of a container that runs", Long: adoptHelp, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if f.Container == "" {
				return usagef("adopt: name the container with --container")
			}
			if name == "" {
				name = f.Container
			}
			if _, err := schemas.ParseName(name); err != nil {
				return usageError{fmt.Errorf("%w: give the session a name with --name", err)}
			}
			if r.Idle, err = parseIdle(idle); err != nil {
				return err
			}
			var v schemas.View
			if err := c.call(cmd.Context(), "run", schemas.Request{Name: name, Run: adopting(r, f.Docker)}, &v); err != nil {
				return err
			}
			return printOutcome(v, asJSON)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.Container, "container", "", "its name or id (required)")
	fl.StringVar(&name, "name", "", "[tenant/]id of the session (default: the container's name)")
	fl.StringVar(&r.Class, "class", "", "web, terminal, automation, slack or desktop (default web)")
	fl.StringVar(&idle, "idle", "", "suspend after this time without use, e.g. 20s; or never (default: by class)")
	fl.StringVar((*string)(&r.Host), "host", "", "the host that it is on (default: this one)")
	fl.BoolVar(&f.Remove, "remove", false, "remove it when it is suspended, rather than hold it stopped")
	fl.BoolVar(&asJSON, "json", false, "print the session as JSON")
	f.addKept(fl)
	return cmd
}

// adopting asks for a session of a container that is there.
func adopting(r schemas.RunRequest, d schemas.Docker) *schemas.RunRequest {
	data, err := json.Marshal(schemas.Spec{Docker: &d})
	if err != nil {
		data = nil // of plain fields: it can't be
	}
	r.Driver, r.Program, r.Spec = docker.Name, d.Container, data
	return &r
}

// adoptLabelled makes sessions of the containers that ask for it by their labels, until
// ctx ends.
func adoptLabelled(ctx context.Context, w *worker.Worker, d *docker.Driver, nc *nats.Conn, log *slog.Logger) error {
	select {
	case <-w.Ready():
	case <-ctx.Done():
	}
	for c := range d.Labelled(ctx) {
		r := adopting(schemas.RunRequest{Class: c.Class, Host: w.Host}, schemas.Docker{Container: c.ID, Remove: c.Remove})
		r.Program = c.Name
		err := askOn(ctx, nc, "run", schemas.Request{
			Name: c.Session, Run: r, Actor: "docker@" + string(w.Host), Reason: "its label " + c.Label + " asks for it", Wait: schemas.Duration(adoptWait),
		})
		if err != nil && ctx.Err() == nil {
			log.Warn("a container that asks for it by its label is not made a session", "container", c.Name, "session", c.Session, "err", err)
		}
	}
	return nil
}

// adoptWait is how long making a session of a container may take.
const adoptWait = time.Minute

// askOn asks the API, and waits for it to be there.
func askOn(ctx context.Context, nc *nats.Conn, verb string, req schemas.Request) error {
	data, err := json.Marshal(req)
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, adoptWait)
	defer cancel()
	for {
		msg, err := nc.RequestWithContext(ctx, schemas.SubjectAPI+"."+verb, data)
		if errors.Is(err, nats.ErrNoResponders) { // it is starting
			select {
			case <-time.After(time.Second):
				continue
			case <-ctx.Done():
			}
		}
		if err != nil {
			return fmt.Errorf("ask %q: %w", verb, err)
		}
		if code := msg.Header.Get(micro.ErrorCodeHeader); code != "" {
			return &schemas.APIError{Code: code, Text: msg.Header.Get(micro.ErrorHeader)}
		}
		return nil
	}
}
