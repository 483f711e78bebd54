package docker

import (
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/dockerspec"
)

// An image that someone made of a session's container has its labels, and so have the
// containers that he makes of it: they are his.
func TestContainerOfCommittedImageStays(t *testing.T) {
	t.Parallel()
	x := newTester(t)
	x.start("a", dockerspec.With(schemas.Spec{Command: []string{"sleep", "1000000"}}, dockerspec.Options{}))
	n := must[note](t)(x.d.notes.read("a"))
	img := must[client.ContainerCommitResult](t)(x.e.Client.ContainerCommit(t.Context(), n.Container, client.ContainerCommitOptions{Reference: "someone:test"}))
	his := must[client.ContainerCreateResult](t)(x.e.Client.ContainerCreate(t.Context(), client.ContainerCreateOptions{Config: &container.Config{Image: "someone:test"}, Name: "his"}))
	t.Cleanup(func() {
		if _, err := x.e.Client.ContainerRemove(afterwards(t), his.ID, client.ContainerRemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
		if _, err := x.e.Client.ImageRemove(afterwards(t), img.ID, client.ImageRemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	})
	x.stop("a")
	if _, err := x.e.Client.ContainerInspect(t.Context(), his.ID, client.ContainerInspectOptions{}); err != nil {
		t.Fatalf("someone's container went with the session: %v", err)
	}
	if _, err := x.e.Client.ContainerInspect(t.Context(), n.Container, client.ContainerInspectOptions{}); !missing(err) {
		t.Errorf("the session's own is left: %v", err)
	}
}
