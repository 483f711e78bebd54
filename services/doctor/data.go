package doctor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/services/datadir"
)

// NameData is the check that what lies in the data directory is needed for.
const NameData = "data-directory"

// DataDirectory checks that the data directory can be used, or can be made, and
// says whether a `diapause up` runs on it.
func DataDirectory(path string) Check {
	return Check{
		Name: NameData, What: "the data directory is ours, closed to others and of a version that is known", Needs: []string{NamePrivileges},
		Run: func(context.Context) Result {
			s, err := datadir.Look(path)
			if err != nil {
				return failed(err, dataFix(err))
			}
			return okf("%s", describe(s))
		},
	}
}

func dataFix(err error) string {
	switch {
	case errors.Is(err, datadir.ErrNewer):
		return "use the newer Diapause that made it, or another directory with --data"
	case errors.Is(err, datadir.ErrAccess):
		return "look who changed its owner or mode, and give it back with chown and chmod 700"
	case errors.Is(err, datadir.ErrForeign):
		return "name an empty or a new directory with --data"
	}
	return "put back from a backup what is damaged, or name another directory with --data"
}

func describe(s datadir.State) string {
	switch {
	case !s.Exists:
		return s.Path + ", which the first `diapause up` makes"
	case s.Up != nil && s.Up.URL == "":
		return fmt.Sprintf("%s, where process %d is starting or stopping", s.Path, s.Up.PID)
	case s.Up != nil:
		return fmt.Sprintf("%s, in use by `diapause up`, process %d, since %s at %s", s.Path, s.Up.PID, s.Up.Started.Format(time.RFC3339), s.Up.URL)
	case s.Fresh:
		return s.Path + ", empty"
	}
	return fmt.Sprintf("%s of host %s, not in use", s.Path, s.Host)
}

// Keys checks that the keys that the first start made are there, closed to others
// and whole.
func Keys(path string) Check {
	return Check{
		Name: "keys", What: "the keys of the data directory are there, whole and closed to others", Needs: []string{NameData},
		Run: func(context.Context) Result {
			s, err := datadir.Look(path)
			if err == nil && s.Fresh {
				return okf("none yet: the first `diapause up` makes them, and says where")
			}
			var identity, signing string
			if err == nil {
				identity, signing, err = s.CheckKeys()
			}
			if err != nil {
				return failed(err, "put it back from a backup, with mode 600; no key is ever made in place of one that is gone")
			}
			return okf("%s and %s: have them in a backup", identity, signing)
		},
	}
}

// Room for images and streams, in bytes.
const (
	roomLeast  = 256 << 20
	roomEnough = 2 << 30
)

// Disk checks the free space of the file system of the data directory.
func Disk(path string) Check {
	return Check{Name: "disk", What: "there is room where the data directory is or is to be", Run: func(context.Context) Result {
		dir, err := filepath.Abs(path)
		var st unix.Statfs_t
		for err == nil {
			err = unix.Statfs(dir, &st)
			if err == nil || dir == "/" || !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
				break
			}
			dir, err = filepath.Dir(dir), nil
		}
		if err != nil {
			return failed(fmt.Errorf("ask %s for its free space: %w", dir, err), "name another directory with --data")
		}
		return disk(int64(st.Bavail)*st.Bsize, int64(st.Ffree), st.Files > 0)
	}}
}

func disk(free, inodes int64, counted bool) Result {
	r := okf("%.1f GB free", float64(free)/1e9)
	r.Measured = map[string]int64{"free_bytes": free}
	const fix = "make room, or keep the data directory elsewhere with --data"
	switch {
	case free < roomLeast:
		r.Status, r.Fix = Fail, fix
		r.Detail += fmt.Sprintf(", of which nothing much can be kept (at least %.1f GB)", roomLeast/1e9)
	case counted && inodes < 1000:
		r.Status, r.Fix = Fail, fix
		r.Detail += fmt.Sprintf(", but room for %d files only", inodes)
	case free < roomEnough:
		r.Status, r.Fix = Warn, fix
		r.Detail += ", which few images fill"
	}
	return r
}

// upOf finds the `diapause up` of a data directory, if there is one that serves.
func upOf(path string) (datadir.Up, bool) {
	up, err := datadir.Locate(path)
	return up, err == nil
}
