package rootfs

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/workers/driver"
)

// saveFromEngine saves an image of the host's Docker engine into a file below dir.
func (s *Store) saveFromEngine(ctx context.Context, image, dir string) (string, error) {
	at := client.FromEnv
	switch s.engine {
	case "":
	case "none":
		return "", refuse(CodeNotFound, "leave engine: out to take it from its registry", "this host uses no Docker engine that could have the image %s", image)
	default:
		at = client.WithHost(s.engine)
	}
	c, err := client.New(at)
	if err != nil {
		return "", engineAway(err)
	}
	defer c.Close()
	saved, err := c.ImageSave(ctx, []string{image})
	switch {
	case errdefs.IsNotFound(err):
		return "", refuse(CodeNotFound, "`docker pull` it, or leave engine: out to take it from its registry", "this host's Docker engine has no image %s", image)
	case err != nil:
		return "", engineAway(err)
	}
	defer saved.Close()
	f, err := os.Create(filepath.Join(dir, "saved.tar"))
	if err != nil {
		return "", fmt.Errorf("save the engine's image: %w", err)
	}
	defer f.Close()
	if _, err := io.Copy(f, saved); err != nil {
		return "", fmt.Errorf("save the engine's image: %w", full(err, dir))
	}
	return f.Name(), f.Close()
}

func engineAway(err error) error {
	return &driver.Error{Kind: driver.Transient, Code: CodeAway, Text: "this host's Docker engine can't be asked for the image", Err: err}
}
