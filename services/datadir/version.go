package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/diapause/diapause/schemas"
)

// FormatVersion is the version of the directory's format that this program
// reads and writes.
const FormatVersion = 1

// Names in the directory.
const (
	versionFile = "version"
	lockFile    = "lock"
	hostFile    = "host"
	upFile      = "up.json"
	keysDir     = "keys"
)

// temporary marks a file that is being written.
const temporary = ".tmp"

// examine reads what kind of directory path is: fresh if it is empty or its
// first start was cut short, an error if this program must not use it.
func examine(path string) (fresh bool, err error) {
	text, err := os.ReadFile(filepath.Join(path, versionFile))
	if errors.Is(err, fs.ErrNotExist) {
		return true, onlyOurs(path)
	}
	if errors.Is(err, fs.ErrPermission) {
		return false, notReadable(path)
	}
	if err != nil {
		return false, err
	}
	version, err := strconv.Atoi(strings.TrimSpace(string(text)))
	switch {
	case err != nil || version < 1:
		return false, fmt.Errorf("%w: its file %q holds no version", ErrForeign, versionFile)
	case version > FormatVersion:
		return false, schemas.WithHint(fmt.Errorf("%w: its format has version %d, this program knows %d", ErrNewer, version, FormatVersion),
			"use the newer program, or choose another directory with --data; nothing was changed")
	}
	return false, nil
}

// onlyOurs refuses a directory without a version that holds anything but what a
// first start has made by then.
func onlyOurs(path string) error {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrPermission) {
		return notReadable(path)
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), temporary)
		if !slices.Contains([]string{lockFile, hostFile, keysDir, versionFile}, name) {
			return schemas.WithHint(fmt.Errorf("%w: it has no file %q but holds %q", ErrForeign, versionFile, e.Name()),
				"choose an empty or a new directory with --data")
		}
	}
	return nil
}

// notReadable says whose the directory is, as far as can be seen.
func notReadable(path string) error {
	owner := "another user"
	if uid, ok := ownerOf(path); ok {
		owner = userName(uid)
	}
	return schemas.WithHint(fmt.Errorf("%w: you may not read it; it belongs to %s", ErrAccess, owner), "run as that user, for example with sudo")
}
