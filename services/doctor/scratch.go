package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// NameScratch is the check that all need which write.
const NameScratch = "scratch"

const (
	scratchPrefix = ".diapause-doctor-"
	scratchLock   = "lock"
)

// Scratch is a directory for what the checks write, on the file system of the
// data directory. It is locked as long as the process lives.
type Scratch struct {
	data    string
	reclaim func(ctx context.Context, dir string) error
	dir     string
	lock    *os.File
}

// NewScratch prepares a scratch directory for the doctor of a data directory;
// the check Writable makes it. What doctors that were killed left is removed then,
// after reclaim has dealt with what they had running; reclaim may be nil.
func NewScratch(data string, reclaim func(ctx context.Context, dir string) error) (*Scratch, error) {
	data, err := filepath.Abs(data)
	if err != nil {
		return nil, fmt.Errorf("find data directory: %w", err)
	}
	return &Scratch{data: data, reclaim: reclaim}, nil
}

// Writable checks that something can be written where the data directory is, or
// is to be.
func (s *Scratch) Writable() Check {
	return Check{
		Name: NameScratch, What: "files can be written where the data directory is or is to be", Needs: []string{NamePrivileges},
		Run: func(ctx context.Context) Result {
			parent, err := s.parent()
			if err == nil {
				err = s.open(ctx, parent)
			}
			if err != nil {
				return failed(err, "make it writable, or choose another data directory with --data")
			}
			return okf("%s, on %s", parent, s.FileSystem())
		},
	}
}

// parent is the directory to write in: the data directory itself if it is in use
// already, else the nearest directory above it that is there. An empty data
// directory stays empty.
func (s *Scratch) parent() (string, error) {
	if _, err := os.Stat(filepath.Join(s.data, "version")); err == nil {
		return s.data, nil
	}
	for dir := filepath.Dir(s.data); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) && dir != "/" {
			continue
		}
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is not a directory", dir)
		}
		return dir, err
	}
}

func (s *Scratch) open(ctx context.Context, parent string) error {
	if err := s.sweep(ctx, parent); err != nil {
		return err
	}
	for {
		dir, err := os.MkdirTemp(parent, scratchPrefix)
		if err != nil {
			return fmt.Errorf("write in %s: %w", parent, err)
		}
		s.dir = dir
		s.lock, err = lock(dir)
		if err == nil {
			return nil
		}
		// Before it was locked, another doctor may have taken it for a leftover.
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.EWOULDBLOCK) {
			return errors.Join(err, s.Close())
		}
	}
}

// sweep removes what doctors left that are gone.
func (s *Scratch) sweep(ctx context.Context, parent string) error {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), scratchPrefix) || !e.IsDir() {
			continue
		}
		if err := s.sweepOne(ctx, filepath.Join(parent, e.Name())); err != nil {
			return fmt.Errorf("remove what an earlier doctor left in %s: %w", filepath.Join(parent, e.Name()), err)
		}
	}
	return nil
}

func (s *Scratch) sweepOne(ctx context.Context, dir string) error {
	held, err := lock(dir)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, fs.ErrNotExist) {
		return nil // its doctor lives, or has just removed it
	}
	if err != nil {
		return err
	}
	defer held.Close()
	if s.reclaim != nil {
		if err := s.reclaim(ctx, dir); err != nil {
			return err
		}
	}
	return os.RemoveAll(dir)
}

// lock takes a directory for this process, until the file is closed.
func lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, scratchLock), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return f, nil
}

// Make makes a directory in the scratch directory, with mode 0700.
func (s *Scratch) Make(name string) (string, error) {
	dir := filepath.Join(s.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("make a scratch directory: %w", err)
	}
	return dir, nil
}

// Close removes the directory, if it was made. A second call does nothing.
func (s *Scratch) Close() error {
	if s.dir == "" {
		return nil
	}
	err := os.RemoveAll(s.dir)
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	s.dir, s.lock = "", nil
	if err != nil {
		return fmt.Errorf("remove the scratch directory: %w", err)
	}
	return nil
}

// FileSystem names the kind of file system that the directory is on.
func (s *Scratch) FileSystem() string {
	var st unix.Statfs_t
	if err := unix.Statfs(s.dir, &st); err != nil {
		return "an unknown file system"
	}
	if name, ok := fileSystems[int64(st.Type)]; ok {
		return name
	}
	return fmt.Sprintf("file system type %#x", st.Type)
}

var fileSystems = map[int64]string{
	unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs",
	unix.TMPFS_MAGIC: "tmpfs", unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.NFS_SUPER_MAGIC: "nfs", unix.F2FS_SUPER_MAGIC: "f2fs",
}
