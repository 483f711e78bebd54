package criu

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// strayAge is how old a directory must be that criu makes for the length of one
// restore, to be taken for abandoned.
const strayAge = time.Hour

// removeStrays removes what restores that were killed have left in dir: empty
// directories, on which criu had mounted what it restored, in a mount namespace
// that is gone. Others that run criu have theirs there too, so young ones stay.
func removeStrays(dir string, now time.Time) error {
	found, err := filepath.Glob(filepath.Join(dir, ".criu.mntns.*"))
	if err != nil {
		return err
	}
	var all []error
	for _, path := range found {
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() || now.Sub(info.ModTime()) < strayAge {
			continue
		}
		err = os.Remove(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.EBUSY) {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}
