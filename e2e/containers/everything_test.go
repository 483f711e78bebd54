package containers

import (
	"context"
	"fmt"
	"slices"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// everything lists all that an engine has: containers and how they are, images with and
// without a name, volumes and networks. Names that the engine made up are left out.
func (h *host) everything() (all []string) {
	h.t.Helper()
	ctx := h.t.Context()
	containers, err := h.e.Client.ContainerList(ctx, client.ContainerListOptions{All: true})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, c := range containers.Items {
		all = append(all, fmt.Sprintf("container %s, %s", c.Names[0], c.State))
	}
	images, err := h.e.Client.ImageList(ctx, client.ImageListOptions{All: true})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, i := range images.Items {
		all = append(all, fmt.Sprintf("image %q", i.RepoTags))
	}
	volumes, err := h.e.Client.VolumeList(ctx, client.VolumeListOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, v := range volumes.Items {
		name := v.Name
		if len(name) == 64 && strings.Trim(name, "0123456789abcdef") == "" {
			name = "without a name"
		}
		all = append(all, "volume "+name)
	}
	networks, err := h.e.Client.NetworkList(ctx, client.NetworkListOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, n := range networks.Items {
		all = append(all, "network "+n.Name)
	}
	slices.Sort(all)
	return all
}

// bystanders makes one of each that is no one's: a paused container, an image without a
// name, one with, a volume and a network. What becomes of sessions is nothing to them.
func (h *host) bystanders() {
	h.t.Helper()
	ctx, t, e := h.t.Context(), h.t, h.e
	h.volume("bystander")
	if _, err := e.Client.ContainerCreate(ctx, client.ContainerCreateOptions{
		Name: "bystander", Config: &container.Config{Image: e.Busybox(t), Cmd: []string{"sleep", "100000"}}, HostConfig: &container.HostConfig{NetworkMode: "none"},
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.remove("bystander") })
	if _, err := e.Client.ContainerStart(ctx, "bystander", client.ContainerStartOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Client.ContainerPause(ctx, "bystander", client.ContainerPauseOptions{}); err != nil {
		t.Fatal(err)
	}
	h.commit("", "bystander")
	network(t, e, "bystander")
}

// commit makes an image of a container, which goes at the end if it is there still.
func (h *host) commit(name, container string) (id string) {
	h.t.Helper()
	got, err := h.e.Client.ContainerCommit(h.t.Context(), container, client.ContainerCommitOptions{Reference: name, NoPause: true})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { h.removeImage(got.ID) })
	return got.ID
}

func (h *host) removeImage(name string) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if _, err := h.e.Client.ImageRemove(ctx, name, client.ImageRemoveOptions{Force: true}); err != nil && !cerrdefs.IsNotFound(err) {
		h.t.Error(err)
	}
}
