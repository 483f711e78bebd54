package core

import (
	"encoding/binary"
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

// KeepMounts leaves out of the image what is mounted where keep says no: a place that this host
// doesn't have. What is mounted below it goes with it.
func KeepMounts(dir string, keep func(point string) bool) error {
	files, err := filepath.Glob(filepath.Join(dir, "mountpoints-*.img"))
	if err != nil {
		return err
	}
	for _, name := range files {
		if err := keepMounts(name, keep); err != nil {
			return fmt.Errorf("read the image's mounts: %w", err)
		}
	}
	return nil
}

func keepMounts(name string, keep func(point string) bool) error {
	file, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	mounts, err := parseFiles(file)
	if err != nil {
		return err
	}
	gone := map[uint64]bool{}
	for range mounts { // what is mounted on one that goes may come before it
		before := len(gone)
		for _, m := range mounts {
			if gone[m.number(mountParent)] || !keep(pointOf(m)) {
				gone[m.number(mountID)] = true
			}
		}
		if len(gone) == before {
			break
		}
	}
	if len(gone) == 0 {
		return nil
	}
	var kept []message
	for _, m := range mounts {
		if !gone[m.number(mountID)] {
			kept = append(kept, m)
		}
	}
	return os.WriteFile(name, encodeFiles(file, kept), 0o600)
}

// pointOf gives where something is mounted, from the root of its namespace.
func pointOf(m message) string {
	i := m.find(mountPoint)
	if i < 0 {
		return "/"
	}
	return path.Join("/", string(m[i].bytes))
}

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
	root := uint64(0)
	for _, m := range mounts {
		if pointOf(m) == "/" {
			root = m.number(mountID)
		}
	}
	for _, m := range mounts {
		if p := pointOf(m); p != "/" && m.number(mountParent) == root {
			points = append(points, p)
		}
	}
	return points
}

// encodeFiles gives an image of any number of messages other ones.
func encodeFiles(file []byte, all []message) []byte {
	out := append([]byte(nil), file[:headerSize-4]...)
	for _, m := range all {
		body := m.encode()
		out = binary.LittleEndian.AppendUint32(out, uint32(len(body)))
		out = append(out, body...)
	}
	return out
}
