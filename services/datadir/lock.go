package datadir

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// takeLock locks the directory for this process and writes down who it is. The
// kernel frees the lock when the file is closed, so also after a SIGKILL. It is
// a lock of the open file description and not a flock, so that clients can ask
// whether it is held without taking it, which would make a start at the same
// moment fail.
func takeLock(path string, by Up) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(path, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err = lockSoon(f); err == nil {
		err = stillThere(f)
	}
	if err == nil {
		err = writeHolder(f, by)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// stillThere checks that Discard of another process hasn't removed a file meanwhile.
func stillThere(f *os.File) error {
	mine, err := f.Stat()
	if err != nil {
		return err
	}
	now, err := os.Stat(f.Name())
	if err != nil || !os.SameFile(mine, now) {
		return fmt.Errorf("%w by another process that is stopping", ErrInUse)
	}
	return nil
}

// A lock whose holder is dead is held by a process that the holder was starting
// when it died, and is freed as soon as that executes its own program.
const (
	deadHolderWait = 10 * time.Second
	deadHolderPoll = 10 * time.Millisecond
)

func lockSoon(f *os.File) error {
	for end := time.Now().Add(deadHolderWait); ; time.Sleep(deadHolderPoll) {
		err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) {
			return err
		}
		holder := readHolder(f)
		dead := holder.PID > 0 && errors.Is(unix.Kill(holder.PID, 0), unix.ESRCH)
		if !dead || time.Now().After(end) {
			return fmt.Errorf("%w by %s", ErrInUse, describe(holder))
		}
	}
}

// lockHolder tells whether a process holds the lock, and which.
func lockHolder(path string) (holder Up, held bool, err error) {
	f, err := os.Open(filepath.Join(path, lockFile))
	if err != nil {
		return Up{}, false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	query := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &query); err != nil {
		return Up{}, false, fmt.Errorf("ask for the lock: %w", err)
	}
	return readHolder(f), query.Type != unix.F_UNLCK, nil
}

// describe names a holder for people. It may not have written its own description
// yet.
func describe(u Up) string {
	if u.PID == 0 {
		return "another process"
	}
	text := fmt.Sprintf("process %d (`diapause up` since %s", u.PID, u.Started.Format(time.RFC3339))
	if url := cmp.Or(u.PublicURL, u.URL); url != "" {
		text += " at " + url
	}
	return text + ")"
}

func readHolder(f *os.File) Up {
	var u Up
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 64<<10))
	if err != nil || json.Unmarshal(text, &u) != nil {
		return Up{}
	}
	return u
}

// writeHolder keeps the file, since the lock is tied to it.
func writeHolder(f *os.File, u Up) error {
	text, err := json.Marshal(u)
	if err != nil {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt(append(text, '\n'), 0)
	return err
}

func ownerOf(path string) (uid uint32, ok bool) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return st.Uid, true
}
