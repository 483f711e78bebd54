package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/objectstore"
)

// tmpDir holds unfinished files; names of objects never start with a dot.
const tmpDir = ".tmp"

// Store is an objectstore.Store in a directory. Several processes may open the
// same directory at the same time.
type Store struct {
	root    string
	sync    func(*os.File) error // File.Sync, but for tests
	durable durable
}

var _ objectstore.Store = (*Store)(nil)

// Open makes the directory if it isn't there, removes what crashed writers left
// in it, and returns the store. The file system must be able to rename without
// replacing (ext4, xfs, btrfs and tmpfs are); Open fails where it can't.
func Open(root string) (*Store, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("open object directory: %w", err)
	}
	s := &Store{root: root, sync: (*os.File).Sync}
	if err := os.MkdirAll(s.tmp(), 0o700); err != nil {
		return nil, fmt.Errorf("open object directory: %w", full(err))
	}
	if err := s.clean(); err != nil {
		return nil, fmt.Errorf("open object directory %s: %w", root, err)
	}
	if err := s.probe(); err != nil {
		return nil, fmt.Errorf("open object directory %s: %w", root, err)
	}
	return s, nil
}

// Room says how large the file system is that the directory is in, and how much of it is free for us.
func (s *Store) Room() (free, total int64, err error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(s.root, &fs); err != nil {
		return 0, 0, fmt.Errorf("look for room in %s: %w", s.root, err)
	}
	return int64(fs.Bavail) * fs.Bsize, int64(fs.Blocks) * fs.Bsize, nil
}

func (s *Store) tmp() string { return filepath.Join(s.root, tmpDir) }

func (s *Store) path(name string) string { return filepath.Join(s.root, filepath.FromSlash(name)) }

// Put implements objectstore.Store.
func (s *Store) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	if err := objectstore.CheckName(name); err != nil {
		return err
	}
	if size < 0 {
		return fmt.Errorf("put %s: %w: %d bytes", name, objectstore.ErrSize, size)
	}
	if err := s.put(ctx, name, r, size); err != nil {
		return fmt.Errorf("put %s: %w", name, full(err))
	}
	return nil
}

func (s *Store) put(ctx context.Context, name string, r io.Reader, size int64) error {
	if _, err := os.Lstat(s.path(name)); err == nil {
		return objectstore.ErrExists
	}
	if err := s.room(size); err != nil {
		return err
	}
	t, err := newTemp(s.tmp())
	if err != nil {
		return err
	}
	defer t.discard()
	if err := t.fill(ctx, r, size); err != nil {
		return err
	}
	if err := s.sync(t.file); err != nil {
		return err
	}
	return s.publish(t, name)
}

// maxReserve is what is left free on any disk, in bytes; on small ones it is a
// fiftieth of it. The log of what happens usually shares the disk, and must be
// able to say that an object had no room.
const maxReserve = 64 << 20

// room refuses what doesn't fit, before it is read.
func (s *Store) room(size int64) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(s.root, &fs); err != nil {
		return fmt.Errorf("look for room: %w", err)
	}
	reserve := min(maxReserve, int64(fs.Blocks)*fs.Bsize/50)
	if free := int64(fs.Bavail) * fs.Bsize; size+reserve > free {
		return fmt.Errorf("%w: %d bytes, %d free, %d of these reserved", objectstore.ErrFull, size, free, reserve)
	}
	return nil
}

// publish gives the finished file its name, and makes that durable. A directory that a
// concurrent Delete removed between mkdir and rename is made again; so many in a row are no
// accident.
func (s *Store) publish(t *temp, name string) error {
	parent := filepath.Dir(s.path(name))
	var err error
	for range 1000 {
		if err = s.mkdirs(parent); gone(err) {
			continue
		}
		if err == nil {
			err = renameNew(t.file.Name(), s.path(name))
		}
		if !errors.Is(err, fs.ErrNotExist) || !t.linked() {
			break
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return objectstore.ErrExists
	}
	if err != nil {
		s.prune(parent)
		return err
	}
	// From here on no directory above the object is removed while the object is there.
	if err = s.keep(parent); err == nil {
		err = s.syncDir(parent)
	}
	if gone(err) {
		return nil // stored, and deleted by someone before the sync
	}
	return err
}

// mkdirs makes a directory below the root, with its parents.
func (s *Store) mkdirs(dir string) error {
	if dir == s.root {
		return nil
	}
	if err := s.mkdirs(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// Get implements objectstore.Store.
func (s *Store) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if err := objectstore.CheckName(name); err != nil {
		return nil, err
	}
	if offset < 0 || length < -1 {
		return nil, fmt.Errorf("get %s: %w: offset %d, length %d", name, objectstore.ErrRange, offset, length)
	}
	f, err := s.open(name)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", name, err)
	}
	r := &reader{ctx: ctx, file: f, left: length, name: name}
	if offset == 0 {
		return r, nil
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		f.Close()
		return nil, fmt.Errorf("get %s: %w", name, err)
	}
	return r, nil
}

func (s *Store) open(name string) (*os.File, error) {
	f, err := os.OpenFile(s.path(name), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, objectstore.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, errors.Join(objectstore.ErrNotFound, err)
	}
	return f, nil
}

// List implements objectstore.Store.
func (s *Store) List(ctx context.Context, prefix string, fn func(objectstore.Info) error) error {
	// The prefix's last element may be the beginning of many names.
	start := s.root
	if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
		if err := objectstore.CheckName(prefix[:i]); err != nil {
			return fmt.Errorf("list %q: %w", prefix, err)
		}
		start = s.path(prefix[:i])
	}
	err := filepath.WalkDir(start, func(path string, d fs.DirEntry, err error) error {
		if gone(err) {
			return nil
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		return s.visit(path, d, prefix, fn)
	})
	if err != nil {
		return fmt.Errorf("list %q: %w", prefix, err)
	}
	return nil
}

func (s *Store) visit(path string, d fs.DirEntry, prefix string, fn func(objectstore.Info) error) error {
	rel, err := filepath.Rel(s.root, path)
	if err != nil {
		return err
	}
	name := filepath.ToSlash(rel)
	if d.IsDir() {
		skip := name == tmpDir || (name != "." && !strings.HasPrefix(prefix, name) && !strings.HasPrefix(name, prefix))
		if skip {
			return filepath.SkipDir
		}
		return nil
	}
	if !d.Type().IsRegular() || !strings.HasPrefix(name, prefix) {
		return nil
	}
	info, err := d.Info()
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return fn(objectstore.Info{Name: name, Size: info.Size(), ModTime: info.ModTime()})
}

func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// Delete implements objectstore.Store.
func (s *Store) Delete(ctx context.Context, name string) error {
	if err := objectstore.CheckName(name); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	path := s.path(name)
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		return nil
	}
	if err := os.Remove(path); err != nil && !gone(err) {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	// Also when it was gone: the one who removed it may not have synced yet.
	if err := s.syncDir(filepath.Dir(path)); err != nil && !gone(err) {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	s.prune(filepath.Dir(path))
	return nil
}

// prune removes directories that became empty. The kernel refuses one that
// isn't, and what stays for any other reason does no harm.
func (s *Store) prune(dir string) {
	for ; dir != s.root; dir = filepath.Dir(dir) {
		if os.Remove(dir) != nil {
			return
		}
	}
}
