package dir

import (
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// syncDir makes the names in a directory durable: those that are there, and that others are
// gone.
func (s *Store) syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return s.sync(d)
}

// keep makes the name of a directory durable, and of all that it is in below the root. It
// syncs only for those that it hasn't synced for yet: most objects come into directories
// that are there for long.
func (s *Store) keep(dir string) error {
	if dir == s.root {
		return nil
	}
	id, certain := identify(dir)
	if certain && s.durable.has(dir, id) {
		return nil
	}
	parent := filepath.Dir(dir)
	if err := s.keep(parent); err != nil {
		return err
	}
	if err := s.syncDir(parent); err != nil {
		return err
	}
	if certain {
		s.durable.add(dir, id)
	}
	return nil
}

// durable remembers directories whose names are durable, and so are those of all that they
// are in: a directory with something in it is never removed.
type durable struct {
	mu   sync.Mutex
	dirs map[string]identity // by path
}

// maxDurable is how many directories are remembered, of about 200 bytes each. One that is
// forgotten is synced once more.
const maxDurable = 4096

func (d *durable) has(path string, id identity) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, ok := d.dirs[path]
	return ok && known == id
}

func (d *durable) add(path string, id identity) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dirs == nil || len(d.dirs) >= maxDurable {
		d.dirs = map[string]identity{}
	}
	d.dirs[path] = id
}

// identity tells a directory from those that had its path before it. Another process may
// remove a directory that is empty, and make it again without having synced that yet; the
// new one may get the inode of the old one, but not its time of birth.
type identity struct {
	major, minor uint32
	inode        uint64
	born         int64 // nanoseconds
}

// identify returns the identity of a directory. It is certain if each directory that is made
// from now on gets another one. A file system without times of birth gives none that is.
func identify(dir string) (id identity, certain bool) {
	now := clock() // before the look at the directory, which may be replaced after it
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, dir, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO|unix.STATX_BTIME, &st) != nil {
		return identity{}, false // the sync will say why
	}
	id = identity{major: st.Dev_major, minor: st.Dev_minor, inode: st.Ino, born: st.Btime.Sec*1e9 + int64(st.Btime.Nsec)}
	const want = unix.STATX_INO | unix.STATX_BTIME
	return id, st.Mask&want == want && id.born < now
}

// clock reads the clock that file systems take times of birth from, in nanoseconds. It stands
// still for some milliseconds, in which two directories may be born at the same time.
func clock() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &t) != nil {
		return 0 // before all times: no identity is certain
	}
	return t.Nano()
}
