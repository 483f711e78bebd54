package local

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// OpenTerminal makes a terminal of that size: what is typed and shown goes through
// the master, a program has the slave.
func OpenTerminal(columns, rows int) (master, slave *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open a terminal: %w", err)
	}
	slave, err = otherEnd(master)
	if err == nil {
		size := &unix.Winsize{Row: uint16(rows), Col: uint16(columns)}
		if err = unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, size); err == nil {
			return master, slave, nil
		}
		err = errors.Join(fmt.Errorf("size the terminal: %w", err), slave.Close())
	}
	return nil, nil, errors.Join(err, master.Close())
}

func otherEnd(master *os.File) (*os.File, error) {
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return nil, fmt.Errorf("unlock the terminal: %w", err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		return nil, fmt.Errorf("name the terminal: %w", err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, fmt.Errorf("open the terminal's other end: %w", err)
	}
	return slave, nil
}
