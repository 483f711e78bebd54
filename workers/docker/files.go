package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/layer"
)

// addDir adds a directory of this host. It warns of what isn't captured.
func addDir(ctx context.Context, sink driver.Sink, dir, part string, stamps *layer.Stamps) (warnings []schemas.Warning, err error) {
	root, err := openDir(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	seen, err := layer.Add(ctx, sink, root, part, stamps)
	if n := len(seen.Skipped); n > 0 {
		first := strings.TrimPrefix(seen.Skipped[0], part)
		warnings = append(warnings, schemas.Warning{Code: schemas.WarnSockets, Subject: first,
			Text: fmt.Sprintf("%d sockets are not in the snapshot, as %s: their programs make them again", n, first)})
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
		return nil, &driver.Error{Kind: driver.Transient, Text: "open a directory of the engine", Hint: "see that the engine runs on this host", Err: err}
	}
	return f, nil
}

// fillDir replaces what is in a directory by a part of an image. alone says that no other process
// can change the directory before the container is started.
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

// extractDir adds a part of an image to what is in a directory.
func extractDir(ctx context.Context, source driver.Source, part, dir string, alone bool) error {
	root, err := openDir(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return layer.Extract(ctx, source, part, root, alone)
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// hasFiles reports whether a directory exists and isn't empty.
func hasFiles(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return len(entries) > 0, err
}
