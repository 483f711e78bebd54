package criu

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// fences remember the highest epoch of each session, over crashes of the host.
type fences struct {
	dir string
	mu  sync.Mutex
}

// pass notes the epoch and refuses one that is lower than what was noted.
func (f *fences) pass(uid schemas.UID, epoch uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	have, err := f.read(uid)
	if err != nil {
		return err
	}
	switch {
	case epoch < have:
		return driver.ErrStale
	case epoch == have:
		return nil
	}
	return f.write(uid, epoch)
}

// fenceKept is how long the fence of a session that isn't here is kept. It is there for
// a worker that acts on what it read before the session went elsewhere, or for good; and
// none does so for that long. When the session comes back it brings a higher epoch.
const fenceKept = 30 * 24 * time.Hour

// prune removes the fences of sessions that left this host long ago.
func (f *fences) prune(here []schemas.UID, now time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	all, err := os.ReadDir(f.dir)
	if err != nil {
		return fmt.Errorf("look for old fences: %w", err)
	}
	for _, e := range all {
		uid := schemas.UID(strings.TrimSuffix(e.Name(), ".new"))
		info, err := e.Info()
		if err != nil || slices.Contains(here, uid) || now.Sub(info.ModTime()) < fenceKept {
			continue
		}
		if err := os.Remove(filepath.Join(f.dir, e.Name())); err != nil {
			return fmt.Errorf("remove an old fence: %w", err)
		}
	}
	return nil
}

func (f *fences) read(uid schemas.UID) (uint64, error) {
	b, err := os.ReadFile(filepath.Join(f.dir, string(uid)))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the fence of session %s: %w", uid, err)
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the fence of session %s in %s is damaged: %w", uid, f.dir, err)
	}
	return n, nil
}

func (f *fences) write(uid schemas.UID, epoch uint64) error {
	path := filepath.Join(f.dir, string(uid))
	if err := writeSynced(path+".new", strconv.FormatUint(epoch, 10)+"\n"); err != nil {
		return fmt.Errorf("write the fence of session %s: %w", uid, err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write the fence of session %s: %w", uid, err)
	}
	if err := syncDir(f.dir); err != nil {
		return fmt.Errorf("write the fence of session %s: %w", uid, err)
	}
	return nil
}

func writeSynced(path, content string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	return errors.Join(err, f.Sync(), f.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
