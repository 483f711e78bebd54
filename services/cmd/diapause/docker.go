package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/workers/drivers"
)

// containerFlags are the flags of run that only containers have.
type containerFlags struct {
	dockerspec.Options
	entrypoint string
	labels     []string

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
	fl.StringVar(&f.Image, "image", "", "run it as a container of this `IMAGE`, by the docker driver")
	fl.StringVar(&f.Options.Name, "container-name", "", "what the container is called (default: diapause-TENANT-ID)")
	fl.StringVar(&f.entrypoint, "entrypoint", "", "in place of the image's")
	fl.StringArrayVarP(&f.Volumes, "volume", "v", nil, "NAME:/path[:ro], /host/path:/path[:ro], or /path")
	fl.StringArrayVar(&f.Tmpfs, "tmpfs", nil, "/path[:options]; its contents are lost with each suspend")
	fl.StringArrayVar(&f.Networks, "join", nil, "a network of the engine's; may be given several times")
	fl.StringArrayVar(&f.Aliases, "network-alias", nil, "a name in these networks")
	fl.StringVar(&f.Restart, "restart", "", "no, always, unless-stopped, on-failure[:n]")
	fl.StringArrayVar(&f.Ulimits, "ulimit", nil, "name=soft[:hard]")
	fl.StringArrayVar(&f.Devices, "device", nil, "/dev/x[:/dev/y[:rwm]]")
	fl.StringArrayVar(&f.ExtraHosts, "add-host", nil, "name:ip")
	fl.StringVar(&f.Hostname, "hostname", "", "inside the container")
	fl.BoolVar(&f.ReadOnly, "read-only", false, "its own file system can't be written to")
	fl.BoolVar(&f.Init, "init", false, "an init process reaps children")
	sizeVar(fl, &f.ShmSize, "shm-size", "of /dev/shm, e.g. 64M")
	fl.StringVar(&f.HealthCmd, "health-cmd", "", "command that says whether it is well")
	durationVar(fl, &f.HealthEach, "health-interval", 0, "time between two of these, e.g. 30s")
	f.addKept(fl)
}

// addKept adds the flags that say what of a container is captured and restored.
func (f *containerFlags) addKept(fl *pflag.FlagSet) {
	fl.BoolVar(&f.Binds, "bind", false, "capture the contents of bind mounts, too")
	fl.BoolVar(&f.SharedVolumes, "shared-volumes", false, "replace volumes that other containers use, too, when it goes on from a snapshot")
}

// fill puts what was asked for into the spec of a container.
func (f *containerFlags) fill(s *schemas.Spec, changed func(flag string) bool, env []string) (err error) {
	d := f.Options
	if f.entrypoint != "" {
		d.Entrypoint = []string{f.entrypoint}
	}
	for _, l := range f.labels {
		k, v, _ := strings.Cut(l, "=")
		if d.Labels == nil {
			d.Labels = map[string]string{}
		}
		d.Labels[k] = v
	}
	*s = dockerspec.With(*s, d)
	// The image gives what wasn't asked for.
	s.Env, err = given(env)
	if !changed("cwd") && !changed("workdir") {
		s.Dir = ""
	}
	if !changed("network") || len(d.Networks) > 0 {
		s.Network = ""
	}
	if err == nil {
		err = drivers.Check(dockerspec.Driver, *s)
	}
	if err != nil {
		return usage(err)
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
