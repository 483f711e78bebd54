package shim

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/attach"
)

// terminal is one pseudo terminal of the session's own devpts instance, whose master the
// shim has. It keeps the slave open too: to see what is queued there, and so that the
// master doesn't fail while no program inside has the slave open.
type terminal struct {
	master *os.File
	slave  *os.File
	index  int

	// The descriptors of the two, which stay non-blocking as File.Fd would not
	// leave them.
	masterFD, slaveFD int
}

// openTerminal makes a new terminal in the devpts mounted at dir; its index is
// what the kernel gives.
func openTerminal(dir string) (*terminal, error) {
	fd, err := unix.Open(filepath.Join(dir, "ptmx"), unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open a terminal: %w", err)
	}
	master := os.NewFile(uintptr(fd), "terminal")
	index, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		master.Close()
		return nil, fmt.Errorf("open a terminal: %w", err)
	}
	sfd, err := unix.Open(filepath.Join(dir, strconv.Itoa(index)), unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		master.Close()
		return nil, fmt.Errorf("open a terminal's other end: %w", err)
	}
	return &terminal{master: master, slave: os.NewFile(uintptr(sfd), "terminal"), index: index, masterFD: fd, slaveFD: sfd}, nil
}

// openTerminals makes terminals with these indices, which a fresh devpts gives
// out from zero up.
func openTerminals(dir string, indices []int) (map[int]*terminal, error) {
	wanted := make(map[int]*terminal, len(indices))
	for _, i := range indices {
		wanted[i] = nil
	}
	var spare []*terminal
	defer func() {
		for _, t := range spare {
			t.close()
		}
	}()
	const enough = 4096 // the kernel's own limit for all of them
	for missing := len(wanted); missing > 0; {
		t, err := openTerminal(dir)
		if err != nil {
			return nil, err
		}
		if have, ok := wanted[t.index]; ok && have == nil {
			wanted[t.index] = t
			missing--
			continue
		}
		if spare = append(spare, t); len(spare) > enough {
			return nil, fmt.Errorf("open terminals %v: the kernel doesn't give them", indices)
		}
	}
	return wanted, nil
}

func (t *terminal) close() {
	t.slave.Close()
	t.master.Close()
}

// reopen opens the slave once more, for a program of the session: blocking, and
// sharing nothing with the shim's own. The tree is what mountTerminals returned.
func (t *terminal) reopen(tree *os.File) (*os.File, error) {
	fd, err := unix.Openat(int(tree.Fd()), strings.TrimPrefix(t.path(), "/"), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open a terminal's other end: %w", err)
	}
	return os.NewFile(uintptr(fd), "terminal"), nil
}

// path is that of the terminal inside the session.
func (t *terminal) path() string { return "/dev/pts/" + strconv.Itoa(t.index) }

// key is how criu names it.
func (t *terminal) key() (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(t.slaveFD, &st); err != nil {
		return "", fmt.Errorf("look at a terminal: %w", err)
	}
	return fmt.Sprintf("tty[%x:%x]", st.Rdev, st.Dev), nil
}

func (t *terminal) resize(s attach.Size) error {
	if s.Rows == 0 || s.Cols == 0 {
		return nil
	}
	err := unix.IoctlSetWinsize(t.masterFD, unix.TIOCSWINSZ, &unix.Winsize{Row: s.Rows, Col: s.Cols})
	if err != nil {
		return fmt.Errorf("resize a terminal: %w", err)
	}
	return nil
}

// foreground is the process group in the foreground, by the shim's pids; 0 if
// there is none.
func (t *terminal) foreground() int {
	pgrp, err := unix.IoctlGetInt(t.slaveFD, unix.TIOCGPGRP)
	if err == nil && pgrp > 0 {
		return pgrp
	}
	if pgrp, err = unix.IoctlGetInt(t.masterFD, unix.TIOCGPGRP); err != nil || pgrp < 0 {
		return 0
	}
	return pgrp
}
