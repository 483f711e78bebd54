package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/workers/driver"
)

// With the containerd image store the engine says neither where a container's layer is nor
// whether an image came from a registry. Its containerd does.

// snapshotter is the one whose layers are directories as those of overlay2.
const snapshotter = "overlayfs"

// snapshotterOf names the snapshotter of containerd that keeps a container's layer.
func snapshotterOf(c *container.InspectResponse) string {
	if s := c.Storage; s != nil && s.RootFS != nil && s.RootFS.Snapshot != nil {
		return s.RootFS.Snapshot.Name
	}
	if c.GraphDriver != nil && c.ImageManifestDescriptor != nil {
		return c.GraphDriver.Name
	}
	return ""
}

// containerd gives where the engine's containerd is, if it says so and it can be reached
// from here.
func (d *Driver) containerd(ctx context.Context) (at containerd, ok bool, err error) {
	got, err := d.engine.Info(ctx, client.InfoOptions{})
	if err != nil {
		return at, false, d.asked("say where its containerd is", err)
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

// snapshotUpper gives the directory of what changed in a container's file system, "" if
// containerd keeps none, or it can't be asked.
func (d *Driver) snapshotUpper(ctx context.Context, c *container.InspectResponse) (string, error) {
	if snapshotterOf(c) != snapshotter {
		return "", nil
	}
	at, ok, err := d.containerd(ctx)
	if err != nil || !ok {
		return "", err
	}
	answer, err := at.call(ctx, "snapshots.v1.Snapshots/Mounts", field{1, []byte(snapshotter)}, field{2, []byte(c.ID)})
	var options [][]byte
	if err == nil {
		options, err = below(answer, 1, 4) // of each mount
	}
	if never(err) {
		return "", nil
	}
	if err != nil {
		return "", &driver.Error{Kind: driver.Transient, Text: fmt.Sprintf("containerd doesn't say where the layer of container %s is", strings.TrimPrefix(c.Name, "/")), Err: err}
	}
	for _, o := range options {
		if dir, ok := bytes.CutPrefix(o, []byte("upperdir=")); ok {
			return string(dir), nil
		}
	}
	return "", nil
}

// sourceLabel begins the labels that say where containerd had something from.
const sourceLabel = "containerd.io/distribution.source."

// fromRegistry reports whether an image came from a registry, by what the engine calls it. With
// the containerd image store each image has such names, also one that was built here.
func (d *Driver) fromRegistry(ctx context.Context, c *container.InspectResponse, i *image.InspectResponse) (bool, error) {
	if snapshotterOf(c) == "" || len(i.RepoDigests) == 0 {
		return len(i.RepoDigests) > 0, nil
	}
	at, ok, err := d.containerd(ctx)
	if err != nil || !ok {
		return false, err
	}
	answer, err := at.call(ctx, "content.v1.Content/Info", field{1, []byte(i.ID)})
	var labels [][]byte
	if err == nil {
		labels, err = below(answer, 1, 5, 1) // the names of them
	}
	if never(err) {
		return false, nil
	}
	if err != nil {
		return false, &driver.Error{Kind: driver.Transient, Text: fmt.Sprintf("containerd doesn't say where image %s is from", i.ID), Err: err}
	}
	for _, l := range labels {
		if bytes.HasPrefix(l, []byte(sourceLabel)) {
			return true, nil
		}
	}
	return false, nil
}
