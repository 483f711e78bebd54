package layer

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Knower is a Stamped or a Storer that can tell whether it has the content of a stamp from
// before. *image.Writer is one.
type Knower interface {
	Knows(stamp string) bool
}

// Stamps gives files stamps: two files of one stamp have one content. A stamp is a
// file's place, size and times. These prove the content only where each change of it
// changes a time, so that there is no stamp, and the content is read,
//
//   - for a file that was changed less than settled before Stamps were made: the clock of
//     a file system moves in steps, so a later change could leave the times as they are.
//     If its stamp is known from before, it was no risk then, and proves its content now;
//   - for a file that a process has mapped to write to: only the first write after the
//     pages were clean changes a time. Processes that may not be looked at (they have
//     more powers than this program) are taken not to map a session's files;
//   - on file systems which don't note writes to mapped files at all, as tmpfs.
type Stamps struct {
	before int64            // files changed later have none, nanoseconds since 1970
	inodes map[uint64]bool  // mapped to be written to, on any file system
	paths  map[string]bool  // likewise, as their processes see them
	places map[uint64]place // of file systems, by device
}

type place struct {
	id string // "" if its times prove nothing
}

// settled is what the clocks of file systems may lag behind, and writes that were under
// way may take, with a large margin.
const settled = 2 * time.Second

// NewStamps looks at what all processes on this host have mapped, now.
func NewStamps(now time.Time) (*Stamps, error) {
	s := &Stamps{
		before: now.Add(-settled).UnixNano(), inodes: map[uint64]bool{}, paths: map[string]bool{}, places: map[uint64]place{},
	}
	files, err := filepath.Glob("/proc/[0-9]*/maps")
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}
	for _, f := range files {
		if err := s.mapped(f); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// mapped notes what one process has mapped to be written to.
func (s *Stamps) mapped(name string) error {
	f, err := os.Open(name)
	if isGone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read what a process has mapped: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 64<<10), 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || !strings.HasSuffix(fields[1], "s") || fields[1][1] != 'w' {
			continue
		}
		if ino, err := strconv.ParseUint(fields[4], 10, 64); err == nil {
			s.inodes[ino] = true
		}
		_, path, _ := strings.Cut(lines.Text(), "/")
		s.paths["/"+path] = true
	}
	if err := lines.Err(); err != nil && !isGone(err) {
		return fmt.Errorf("read what a process has mapped: %w", err)
	}
	return nil
}

// isGone reports whether an error says that a process has ended (ESRCH if it ends while its maps
// are opened or read), or that it has powers that no container of ours has.
func isGone(err error) bool {
	return os.IsNotExist(err) || os.IsPermission(err) || errors.Is(err, unix.ESRCH)
}

// of gives the stamp of a file, "" if there is none. rel is where it is in its tree, and
// known says which stamps prove something though the file was changed just now.
func (s *Stamps) of(f *os.File, st *unix.Stat_t, rel string, known func(string) bool) string {
	if s == nil || s.inodes[st.Ino] || s.paths["/"+rel] {
		return ""
	}
	at := s.place(f, st.Dev)
	if at == "" {
		return ""
	}
	stamp := stampOf(at, st)
	if (st.Ctim.Nano() > s.before || st.Mtim.Nano() > s.before) && !known(stamp) {
		return ""
	}
	return stamp
}

// written bounds how long pages that a process has mapped and written to may wait for the disk, with a
// large margin: the kernel writes them out after half a minute, or some minutes on a laptop. Each time
// that it has done so the next write changes the file's times.
const written = time.Hour

// SettledStamp gives the stamp of a file that hasn't changed for an hour, whether or not it is mapped: "" if it has, or if its
// file system doesn't note all changes.
func SettledStamp(f *os.File, now time.Time) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", err
	}
	s := Stamps{before: now.Add(-written).UnixNano(), places: map[uint64]place{}}
	return s.of(f, &st, "", func(string) bool { return false }), nil
}

func stampOf(at string, st *unix.Stat_t) string {
	return fmt.Sprintf("%s.%x.%x.%x.%x", at, st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano())
}

// place names a file system on which each write changes a time.
func (s *Stamps) place(f *os.File, dev uint64) string {
	if p, ok := s.places[dev]; ok {
		return p.id
	}
	var fs unix.Statfs_t
	var p place
	if unix.Fstatfs(int(f.Fd()), &fs) == nil {
		switch fs.Type {
		case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC:
			p.id = fmt.Sprintf("%x.%x.%x", dev, fs.Fsid.Val[0], fs.Fsid.Val[1])
		}
	}
	s.places[dev] = p
	return p.id
}
