package core

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
)

// The fields of CRIU's mnt_entry.
const (
	mountID     = 2
	mountParent = 4
	mountPoint  = 7
)

// MountPoints lists where something is mounted in the root file system of the image's processes.
func MountPoints(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "mountpoints-*.img"))
	if err != nil {
		return nil, err
	}
	var points []string
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read the image's mounts: %w", err)
		}
		mounts, err := parseFiles(b)
		if err != nil {
			return nil, fmt.Errorf("read the image's mounts: %w", err)
		}
		points = append(points, inRoot(mounts)...)
	}
	return points, nil
}

func inRoot(mounts []message) (points []string) {
	at := func(m message) string {
		i := m.find(mountPoint)
		if i < 0 {
			return "/"
		}
		return path.Join("/", string(m[i].bytes))
	}
	root := uint64(0)
	for _, m := range mounts {
		if at(m) == "/" {
			root = m.number(mountID)
		}
	}
	for _, m := range mounts {
		if p := at(m); p != "/" && m.number(mountParent) == root {
			points = append(points, p)
		}
	}
	return points
}
