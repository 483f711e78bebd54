package docker

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/layer"
)

// upperOf gives the directory on this host that holds what changed in the container's
// file system, "" if the engine keeps it in another way.
func (d *Driver) upperOf(ctx context.Context, c *container.InspectResponse) (dir string, err error) {
	if c.GraphDriver != nil && c.GraphDriver.Name == "overlay2" {
		dir = c.GraphDriver.Data["UpperDir"]
	} else if dir, err = d.snapshotUpper(ctx, c); err != nil {
		return "", err
	}
	if st, err := os.Stat(dir); dir == "" || err != nil || !st.IsDir() {
		return "", nil
	}
	return dir, nil
}

// addDir adds a directory of this host, and says what of it isn't captured.
func addDir(ctx context.Context, sink driver.Sink, dir, part string, stamps *layer.Stamps) (warnings []string, err error) {
	root, err := openDir(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	seen, err := layer.Add(ctx, sink, root, part, stamps)
	if n := len(seen.Skipped); n > 0 {
		warnings = append(warnings, fmt.Sprintf("%d sockets are not in the snapshot, as %s: their programs make them again", n, strings.TrimPrefix(seen.Skipped[0], part)))
	}
	return warnings, err
}

func aheadDir(ctx context.Context, to layer.Storer, dir string, stamps *layer.Stamps) error {
	root, err := openDir(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return layer.Ahead(ctx, to, root, stamps)
}

func openDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open a directory of the engine (is it on this host?): %w", err)
	}
	return f, nil
}

// fillDir makes a directory what a part of an image says, in the place of what is in it.
// alone says that nobody else can change it before the container is started.
func fillDir(ctx context.Context, source driver.Source, part, dir string, alone bool) error {
	root, err := openDir(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := layer.Clear(root); err != nil {
		return err
	}
	return layer.Extract(ctx, source, part, root, alone)
}

// extractDir puts a part of an image into a directory beside what is in it.
func extractDir(ctx context.Context, source driver.Source, part, dir string, alone bool) error {
	root, err := openDir(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return layer.Extract(ctx, source, part, root, alone)
}

// blocks says what of a container can't be captured.
func blocks(m *capture, c *container.InspectResponse) (out []driver.Blocker) {
	say := func(what, why, fix string) {
		out = append(out, driver.Blocker{PID: c.State.Pid, Program: "container " + m.Name, What: what, Why: why, Fix: fix})
	}
	if c.State.Restarting {
		say("restarting", "the engine starts it again and again", "see `docker logs "+m.Name+"`")
	}
	for _, v := range m.Mounts {
		if v.Type == mount.TypeVolume && v.Driver != "local" {
			say("volume "+v.Name+" at "+v.At, "it is kept by the volume driver "+v.Driver+", elsewhere than on this host", "use a volume of the local driver")
		}
		if v.Part != "" {
			if st, err := os.Stat(v.path); err != nil || !st.IsDir() {
				say("what is mounted at "+v.At, v.path+" can't be read as a directory here", "run the worker where the engine is; don't capture the contents of single files")
			}
		}
	}
	return out
}

// warningsOf says what is not in the snapshot although the container has it.
func warningsOf(m *capture) (out []string) {
	for _, v := range m.Mounts {
		switch {
		case v.Type == mount.TypeTmpfs:
			out = append(out, "tmpfs "+v.At+" is lost: it is memory")
		case v.Type == mount.TypeBind && v.Part == "":
			out = append(out, fmt.Sprintf("the contents of the bind mount %s (%s on this host) are not in the snapshot: another host must have them at the same place (or capture them with --bind)", v.At, v.Source))
		case v.Type == mount.TypeVolume && v.Part == "":
			out = append(out, fmt.Sprintf("the contents of volume %s at %s are not in the snapshot: they are of type %s, kept elsewhere", v.Name, v.At, kindOfVolume(v.Options)))
		case len(v.Shared) > 0:
			out = append(out, fmt.Sprintf("volume %s at %s is also used by %s, which wasn't paused: what it wrote meanwhile may be half in the snapshot", v.Name, v.At, strings.Join(v.Shared, ", ")))
		}
	}
	for at := range m.HostConfig.Tmpfs {
		out = append(out, "tmpfs "+at+" is lost: it is memory")
	}
	if m.Files == partRoot {
		out = append(out, "the engine doesn't keep layers in directories of this host (overlay2 does, and the containerd image store whose containerd can be asked): all of the file system is in the snapshot")
	}
	return out
}
