package layer

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/objectstore/image"
)

// Restamped is a Source that is told the stamps of the files that were made of its
// entries, so that the next image knows their contents without reading them.
// *image.Reader is one.
type Restamped interface {
	Restamp(name, stamp string)
}

// fresh collects the stamps of files as they are made. Its methods do nothing on nil.
type fresh struct {
	to     Restamped
	stamps *Stamps
	names  []string // of entries
	of     map[string]freshFile
	newest int64 // change of any of them
}

type freshFile struct {
	stamp string
	entry image.Entry
}

// made takes the stamp of a file that has its content and its looks. Its times are what
// its entry says, or it was changed since.
func (f *fresh) made(dir *os.File, base string, e image.Entry) error {
	if f == nil {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &os.PathError{Op: "stat", Path: base, Err: err}
	}
	if st.Mtim.Nano() != e.MTime || st.Size != e.Size || st.Ctim.Nsec == 0 { // or its file system counts seconds
		return nil
	}
	at := f.stamps.place(dir, st.Dev)
	if at == "" {
		return nil
	}
	if f.of == nil {
		f.of = map[string]freshFile{}
	}
	if _, again := f.of[e.Name]; !again {
		f.names = append(f.names, e.Name)
	}
	f.of[e.Name] = freshFile{stampOf(at, &st), e}
	f.newest = max(f.newest, st.Ctim.Nano())
	return nil
}

// linked takes the stamp of a file again that was given one more name, which changed it.
func (f *fresh) linked(dir *os.File, base, to string) error {
	if f == nil || f.of[to].stamp == "" {
		return nil
	}
	return f.made(dir, base, f.of[to].entry)
}

// tell hands the stamps out when the clock of the file system has moved on since the last
// file was made: a change from now on changes its stamp, too.
func (f *fresh) tell(ctx context.Context) error {
	if f == nil || len(f.names) == 0 {
		return nil
	}
	for end := time.Now().Add(settled); ; time.Sleep(time.Millisecond) {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now); err != nil || time.Now().After(end) {
			return nil // it was put back, or can't be read: then there are no stamps
		}
		if now.Nano() > f.newest {
			break
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	for _, name := range f.names {
		f.to.Restamp(name, f.of[name].stamp)
	}
	return nil
}
