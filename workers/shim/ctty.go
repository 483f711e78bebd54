package shim

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/tree"
)

// A program that opens /dev/tty has its controlling terminal open by another
// name. criu restores that only for terminals whose other end is in the session;
// for one of ours /dev/tty is declared to be held outside as well, and the
// program gets the terminal itself in its place on a restore: for all it can do
// with it that is the same. criu knows one /dev/tty for the whole session, so all
// who have it open must mean the same terminal.

// controlling finds what /dev/tty is in the session: criu's name of it, and the
// command whose terminal it is. Both are empty if no program has it open, or only
// programs below terminals that the session made itself. Programs of several
// terminals that have it open can't be captured together, which is refused.
func (t *processes) controlling(pids []int, opened *tree.Opened) (key string, owner *command, err error) {
	users, key, err := cttyUsers(pids, opened)
	if err != nil || len(users) == 0 {
		return "", nil, err
	}
	var others []cttyUser
	for _, u := range users {
		c := t.withTerminal(u.terminal)
		switch {
		case c == nil || owner != nil && c != owner:
			others = append(others, u)
		default:
			owner = c
		}
	}
	if owner == nil {
		return "", nil, nil
	}
	if len(others) == 0 {
		return key, owner, nil
	}
	refused := &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("session %s can't be captured", t.name)}
	for _, u := range others {
		refused.Blockers = append(refused.Blockers, driver.Blocker{
			PID: within(u.pid), Program: comm(u.pid), What: "/dev/tty",
			Why: "programs at different terminals have /dev/tty open, which can be restored for one terminal only",
			Fix: "end it, or have it close /dev/tty",
		})
	}
	return "", nil, refused
}

// withTerminal finds the command whose terminal has that index.
func (t *processes) withTerminal(index int) *command {
	for _, c := range t.commands() {
		if c.tty != nil && c.tty.index == index {
			return c
		}
	}
	return nil
}

// cttyUser is a process that has /dev/tty open.
type cttyUser struct {
	pid      int
	terminal int // index of its controlling terminal, -1 if it has none
}

func cttyUsers(pids []int, opened *tree.Opened) (users []cttyUser, key string, err error) {
	for _, pid := range pids {
		fds, err := opened.FDs(pid)
		if err != nil {
			return nil, "", fmt.Errorf("look for /dev/tty: %w", err)
		}
		for _, fd := range fds {
			var st unix.Stat_t
			if fd.Link != "/dev/tty" || unix.Stat(fd.Via(), &st) != nil || st.Rdev != unix.Mkdev(5, 0) {
				continue
			}
			key = fmt.Sprintf("tty[%x:%x]", st.Rdev, st.Dev)
			users = append(users, cttyUser{pid, controllingTerminal(pid)})
			break
		}
	}
	return users, key, nil
}

// The first device number of pseudo terminals, and how many belong to each major
// number.
const (
	firstPTY = 136
	lastPTY  = 143
	perMajor = 256
)

// controllingTerminal gives the index of a process's terminal, -1 if it has none
// or another kind.
func controllingTerminal(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return -1
	}
	// After the name, which is in brackets and may hold any: state, ppid, pgrp,
	// session, terminal.
	_, rest, _ := strings.Cut(string(b[strings.LastIndexByte(string(b), ')')+1:]), " ")
	f := strings.Fields(rest)
	if len(f) < 5 {
		return -1
	}
	dev, err := strconv.ParseUint(f[4], 10, 32)
	if err != nil {
		return -1
	}
	major, minor := dev>>8&0xfff, dev&0xff|dev>>12&0xfff00
	if major < firstPTY || major > lastPTY {
		return -1
	}
	return int((major-firstPTY)*perMajor + minor)
}
