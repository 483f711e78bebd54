package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	content "github.com/containerd/containerd/api/services/content/v1"
	snapshots "github.com/containerd/containerd/api/services/snapshots/v1"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/client"
	"google.golang.org/grpc"

	"github.com/diapause/diapause/workers/driver"
)

// storage finds out where the engine keeps the files of containers and images.
type storage struct {
	engine *engine
}

// upper gives the directory of this host that holds the changes of a container's file system, "" if
// the engine keeps them in another way.
func (s *storage) upper(ctx context.Context, c *container.InspectResponse) (dir string, err error) {
	if c.GraphDriver != nil && c.GraphDriver.Name == "overlay2" {
		dir = c.GraphDriver.Data["UpperDir"]
	} else if dir, err = s.snapshotUpper(ctx, c); err != nil {
		return "", err
	}
	if st, err := os.Stat(dir); dir == "" || err != nil || !st.IsDir() {
		return "", nil
	}
	return dir, nil
}

// With the containerd image store only containerd says where a container's layer is, and whether
// an image came from a registry.

// snapshotter is the one that keeps layers as overlay2 does.
const snapshotter = "overlayfs"

// snapshotterOf names the snapshotter that keeps a container's layer, "" without containerd.
func snapshotterOf(c *container.InspectResponse) string {
	if s := c.Storage; s != nil && s.RootFS != nil && s.RootFS.Snapshot != nil {
		return s.RootFS.Snapshot.Name
	}
	if c.GraphDriver != nil && c.ImageManifestDescriptor != nil {
		return c.GraphDriver.Name
	}
	return ""
}

// containerd gives the address of the engine's containerd. ok is false if the engine doesn't say it
// or its socket isn't here.
func (s *storage) containerd(ctx context.Context) (at containerd, ok bool, err error) {
	got, err := s.engine.Info(ctx, client.InfoOptions{})
	if err != nil {
		return at, false, s.engine.failed("tell the address of its containerd", err)
	}
	c := got.Info.Containerd
	if c == nil || c.Address == "" { // before Docker 27
		return at, false, nil
	}
	_, err = os.Stat(c.Address)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return at, false, nil
	}
	return containerd{socket: c.Address, namespace: c.Namespaces.Containers}, err == nil, err
}

// snapshotUpper gives what upper does, from containerd. It is "" if containerd has no such
// directory or can't be asked.
func (s *storage) snapshotUpper(ctx context.Context, c *container.InspectResponse) (string, error) {
	if snapshotterOf(c) != snapshotter {
		return "", nil
	}
	at, ok, err := s.containerd(ctx)
	if err != nil || !ok {
		return "", err
	}
	var dir string
	err = at.ask(ctx, func(ctx context.Context, conn *grpc.ClientConn) error {
		got, err := snapshots.NewSnapshotsClient(conn).Mounts(ctx, &snapshots.MountsRequest{Snapshotter: snapshotter, Key: c.ID})
		for _, m := range got.GetMounts() {
			dir = cmp.Or(dir, upperdir(m.GetOptions()))
		}
		return err
	})
	if never(err) {
		return "", nil
	}
	if err != nil {
		return "", &driver.Error{Kind: driver.Transient, Text: fmt.Sprintf("ask containerd for the layer of container %s", strings.TrimPrefix(c.Name, "/")), Err: err}
	}
	return dir, nil
}

// upperdir gives the value of upperdir in the options of a mount.
func upperdir(options []string) string {
	for _, o := range options {
		if dir, ok := strings.CutPrefix(o, "upperdir="); ok {
			return dir
		}
	}
	return ""
}

// sourceLabel is the prefix of the labels that name the registry of what containerd pulled.
const sourceLabel = "containerd.io/distribution.source."

// fromRegistry reports whether an image came from a registry: it has a repository digest. With the
// containerd image store images that were built here have one as well, so containerd is asked.
func (s *storage) fromRegistry(ctx context.Context, c *container.InspectResponse, i *image.InspectResponse) (bool, error) {
	if snapshotterOf(c) == "" || len(i.RepoDigests) == 0 {
		return len(i.RepoDigests) > 0, nil
	}
	at, ok, err := s.containerd(ctx)
	if err != nil || !ok {
		return false, err
	}
	var pulled bool
	err = at.ask(ctx, func(ctx context.Context, conn *grpc.ClientConn) error {
		got, err := content.NewContentClient(conn).Info(ctx, &content.InfoRequest{Digest: i.ID})
		for name := range got.GetInfo().GetLabels() {
			pulled = pulled || strings.HasPrefix(name, sourceLabel)
		}
		return err
	})
	if never(err) {
		return false, nil
	}
	if err != nil {
		return false, &driver.Error{Kind: driver.Transient, Text: fmt.Sprintf("ask containerd for the registry of image %s", i.ID), Err: err}
	}
	return pulled, nil
}

// describe says, for a person, how the engine keeps containers' files, and what follows for
// snapshots.
func (s *storage) describe(ctx context.Context) (string, error) {
	got, err := s.engine.Info(ctx, client.InfoOptions{})
	if err != nil {
		return "", s.engine.failed("tell its storage driver", err)
	}
	const whole = ": all of a container's file system goes into each snapshot"
	i := &got.Info
	if i.Driver == "overlay2" {
		return i.Driver, nil
	}
	if !slices.Contains(i.DriverStatus, [2]string{"driver-type", "io.containerd.snapshotter.v1"}) {
		return i.Driver + whole, nil
	}
	store := "containerd image store with " + i.Driver
	if i.Driver != snapshotter {
		return store + whole, nil
	}
	switch _, ok, err := s.containerd(ctx); {
	case err != nil:
		return "", err
	case !ok:
		return store + ", and no socket of containerd here" + whole, nil
	}
	return store, nil
}
