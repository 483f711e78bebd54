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

	"golang.org/x/sys/unix"

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

// write replaces the fence. On a full disk it writes over the one that is there, which takes no
// room: a session must be thawed or stopped then, too.
func (f *fences) write(uid schemas.UID, epoch uint64) error {
	path := filepath.Join(f.dir, string(uid))
	content := fmt.Sprintf("%0*d\n", fenceDigits, epoch)
	err := writeSynced(path+".new", content)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err == nil {
		err = syncDir(f.dir)
	} else if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		_ = os.Remove(path + ".new") // what is left of it the next one replaces
		if overErr := overwrite(path, content); !errors.Is(overErr, fs.ErrNotExist) {
			err = overErr
		}
	}
	if err != nil {
		return fmt.Errorf("write the fence of session %s: %w", uid, err)
	}
	return nil
}

// fenceDigits is enough for each epoch, so that all fences are of one size, and within one
// sector of a disk.
const fenceDigits = 20

// overwrite puts content in the place of what a file has, which is as long.
func overwrite(path, content string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err == nil && st.Size() != int64(len(content)) {
		err = fmt.Errorf("its size is %d, want %d: %w", st.Size(), len(content), unix.ENOSPC)
	}
	if err == nil {
		_, err = f.WriteAt([]byte(content), 0)
	}
	return errors.Join(err, f.Sync(), f.Close())
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
