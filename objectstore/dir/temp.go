package dir

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/objectstore"
)

// temp is an unfinished file. Its writer holds an flock on it, which the kernel
// drops with the process: a file that can be locked has no writer any more.
type temp struct {
	file *os.File
}

func newTemp(dir string) (*temp, error) {
	for {
		f, err := os.OpenFile(filepath.Join(dir, rand.Text()), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, err
		}
		t := &temp{file: f}
		if err := flock(f, unix.LOCK_EX); err != nil {
			t.discard()
			return nil, fmt.Errorf("lock unfinished file: %w", err)
		}
		// Between open and lock a starting process may have taken it for a leftover.
		if t.linked() {
			return t, nil
		}
		t.discard()
	}
}

// linked reports whether the file still has its unfinished name.
func (t *temp) linked() bool {
	named, err := os.Lstat(t.file.Name())
	if err != nil {
		return false
	}
	own, err := t.file.Stat()
	return err == nil && os.SameFile(named, own)
}

// fill writes exactly size bytes of r.
func (t *temp) fill(ctx context.Context, r io.Reader, size int64) error {
	n, err := io.Copy(t.file, io.LimitReader(&ctxReader{ctx, r}, size))
	if err != nil {
		return err
	}
	if n < size {
		return fmt.Errorf("%w: %d bytes, want %d", objectstore.ErrSize, n, size)
	}
	if err := atEnd(r, size); err != nil {
		return err
	}
	return ctx.Err()
}

func atEnd(r io.Reader, size int64) error {
	var extra [1]byte
	switch _, err := io.ReadFull(r, extra[:]); {
	case err == nil:
		return fmt.Errorf("%w: more than %d bytes", objectstore.ErrSize, size)
	case errors.Is(err, io.EOF):
		return nil
	default:
		return err
	}
}

// discard closes the file and removes its unfinished name, which after a
// successful publish is gone already.
func (t *temp) discard() {
	if t.linked() {
		os.Remove(t.file.Name())
	}
	t.file.Close()
}

// clean removes the unfinished files of writers that are gone.
func (s *Store) clean() error {
	entries, err := os.ReadDir(s.tmp())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := removeDead(filepath.Join(s.tmp(), e.Name())); err != nil {
			return fmt.Errorf("remove unfinished file %s: %w", e.Name(), err)
		}
	}
	return nil
}

func removeDead(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	switch err := flock(f, unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil
	case err != nil:
		return err
	}
	// The name is random and was never given twice, so it is still this file's.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// probe checks that the file system renames without replacing.
func (s *Store) probe() error {
	a, err := newTemp(s.tmp())
	if err != nil {
		return full(err)
	}
	defer a.discard()
	b, err := newTemp(s.tmp())
	if err != nil {
		return full(err)
	}
	defer b.discard()
	if err := renameNew(a.file.Name(), b.file.Name()); !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("rename without replacing fails here (%v): use ext4, xfs, btrfs or tmpfs", err)
	}
	return nil
}

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func renameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// full marks the errors of a disk or quota without room.
func full(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%w: %w", objectstore.ErrFull, err)
	}
	return err
}
