package inventory

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/tree"
)

// files notes what a process has open.
func (c *collector) files(l *look) error {
	fds, err := tree.FDs(l.PID)
	if err != nil {
		return err
	}
	handle, err := unix.PidfdOpen(l.PID, 0)
	if err != nil {
		return fmt.Errorf("open it: %w", err)
	}
	defer unix.Close(handle)
	for _, fd := range fds {
		flags, err := c.file(handle, fd, l.root)
		if err != nil {
			return fmt.Errorf("look at its descriptor %d: %w", fd.Num, err)
		}
		if strings.HasPrefix(fd.Link, "/") && flags&unix.O_ACCMODE != unix.O_RDONLY {
			l.Writable = append(l.Writable, fd)
		}
	}
	return nil
}

// file notes one descriptor, and gives its flags.
func (c *collector) file(process int, fd tree.FD, root uint64) (flags uint64, err error) {
	o := Object{c.inner[fd.PID], "fd " + strconv.Itoa(fd.Num)}
	kind, number, numbered := strings.Cut(fd.Link, ":[")
	if numbered && (kind == "pipe" || kind == "socket") {
		c.noteNumbered(o, "file", kind, number)
	} else if own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", fd.PID, kind)); numbered && err == nil {
		// A copy has namespaces of its own.
		if own == fd.Link {
			number = "own"
		}
		c.noteNumbered(o, "file", kind, number)
	} else if fd.Link == ownTerminal { // a copy has it by its own name
		c.note(o, "file", terminalOf(process, fd.Num))
	} else {
		c.note(o, "file", named(fd.Link))
	}
	flags = c.info(o, fd.PID, c.read(fd.PID, "fdinfo/"+strconv.Itoa(fd.Num)))
	look := c.lookFor(fd.Link, root)
	if look == nil {
		return flags, nil
	}
	f, err := unix.PidfdGetfd(process, fd.Num, 0)
	if errors.Is(err, unix.EBADF) { // opened for its path alone
		return flags, nil
	}
	if err != nil {
		return flags, err
	}
	defer unix.Close(f)
	look(o, f)
	return flags, nil
}

// named gives the name of a file. CRIU opens a file that was removed, and whose name another has, by a name that it
// makes for it: NAME.cr_link, which stays in /proc.
func named(link string) string {
	if name, ok := strings.CutSuffix(link, ".cr_link (deleted)"); ok {
		return name + " (deleted)"
	}
	return link
}

// ownTerminal is what each process calls its controlling terminal.
const ownTerminal = "/dev/tty"

// terminalOf gives the name of the terminal that a process has open.
func terminalOf(process, number int) string {
	f, err := unix.PidfdGetfd(process, number, 0)
	if err != nil {
		return ownTerminal
	}
	defer unix.Close(f)
	device, err := unix.IoctlGetUint32(f, unix.TIOCGDEV)
	if err != nil { // it has hung up
		return ownTerminal
	}
	return terminal(uint64(device))
}

// info notes what /proc/PID/fdinfo says of an open file, and gives its flags.
func (c *collector) info(o Object, pid int, text string) (flags uint64) {
	timer := strings.Contains(text, "\nit_value:")
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.Join(strings.Fields(value), " ")
		switch {
		case name == "pos" && !timer:
			c.note(o, "position", value)
		case name == "flags":
			flags, _ = strconv.ParseUint(value, 8, 32) // 0 of what can't be read
			c.note(o, "flags", kept(value))
		case name == "scm_fds":
			c.note(o, "descriptors in flight", value)
		case name == "eventfd-count":
			c.note(o, "counter", value)
		case name == "eventfd-semaphore":
			c.note(o, "semaphore", value)
		case name == "sigmask":
			c.note(o, "awaited signals", value)
		case name == "tty-index":
			c.note(o, "terminal", value)
		case name == "clockid":
			c.note(o, "clock", value)
		case name == "settime flags":
			c.note(o, "clock's mode", value)
		case name == "it_interval":
			c.note(o, "interval", value)
		case name == "NSpid":
			f := strings.Fields(value)
			c.note(o, "process", f[len(f)-1])
		case name == "tfd":
			c.awaited(o, pid, strings.Fields(value))
		case strings.HasPrefix(name, "inotify wd"):
			c.watch(o, pid, line)
		case strings.HasPrefix(name, "fanotify "):
			c.note(o, "marks", mark(line))
		case name == "lock":
			c.note(o, "lock", c.lock(value))
		}
	}
	return flags
}

// kept gives the flags of an open file without those that say how it was made.
func kept(value string) string {
	n, err := strconv.ParseUint(value, 8, 32)
	if err != nil {
		return value
	}
	const large, temporary = 0o100000, 0o20200000
	return strconv.FormatUint(n&^(large|temporary), 8)
}

// gone is the number of an awaited file which its process has closed since: it has the file open by
// another, or another process has.
const gone = "closed since"

// awaited notes what an epoll waits for: "5 events: 19 data: 5 pos:0 ino:…". One that is to
// tell once and has done so waits for nothing until it is asked again; made again it
// waits for hang-ups.
func (c *collector) awaited(o Object, pid int, f []string) {
	if len(f) < 7 {
		return
	}
	number := f[0]
	var st unix.Stat_t
	if ino, err := strconv.ParseUint(strings.TrimPrefix(f[6], "ino:"), 16, 64); err == nil &&
		(unix.Stat(fmt.Sprintf("/proc/%d/fd/%s", pid, number), &st) != nil || st.Ino != ino) {
		number = gone
	}
	events, err := strconv.ParseUint(f[2], 16, 32)
	if err != nil {
		return
	}
	const hangUps, modes = unix.EPOLLERR | unix.EPOLLHUP, unix.EPOLLONESHOT | unix.EPOLLET | unix.EPOLLWAKEUP | unix.EPOLLEXCLUSIVE
	c.note(o, aspectAwaited+" "+number, fmt.Sprintf("%x %s", events&^hangUps, f[4]))
	if events&unix.EPOLLONESHOT != 0 && events&^modes == 0 {
		c.note(o, aspectOnce, number)
	}
}

// watch notes a watch of inotify: its number, for what it waits, and the inode.
func (c *collector) watch(o Object, pid int, line string) {
	number, mask, file := "", "", uint64(0)
	for _, f := range strings.Fields(line) {
		if v, ok := strings.CutPrefix(f, "wd:"); ok {
			number = v
		}
		if v, ok := strings.CutPrefix(f, "mask:"); ok {
			mask = v
		}
		if v, ok := strings.CutPrefix(f, "ino:"); ok {
			file, _ = strconv.ParseUint(v, 16, 64)
		}
	}
	c.note(o, aspectWatch+" "+number, mask)
	c.watched[watchKey{o, number}] = watched{pid, file}
}

// mark gives a group of fanotify, or one of its marks, without what names the file: "fanotify ino:1a sdev:2
// mflags:0 mask:20 ignored_mask:0 …".
func mark(line string) string {
	kind, _, _ := strings.Cut(strings.TrimPrefix(line, "fanotify "), ":")
	f := []string{kind}
	for _, field := range strings.Fields(line) {
		for _, name := range []string{"flags:", "event-flags:", "mflags:", "mask:", "ignored_mask:"} {
			if strings.HasPrefix(field, name) {
				f = append(f, field)
			}
		}
	}
	return strings.Join(f, " ")
}

// lock gives a lock without the numbers of the kernel: "1: POSIX ADVISORY WRITE 77 fd:01:131 0 EOF".
func (c *collector) lock(value string) string {
	f := strings.Fields(value)
	if len(f) < 8 {
		return value
	}
	pid, _ := strconv.Atoi(f[4])
	return strings.Join([]string{f[1], f[2], f[3], strconv.Itoa(c.inner[pid]), f[6], f[7]}, " ")
}

// lookFor gives how to look at an open file itself; nil if there is no need.
func (c *collector) lookFor(link string, root uint64) func(o Object, fd int) {
	switch {
	case strings.HasPrefix(link, "socket:["):
		return c.socket
	case strings.HasPrefix(link, "pipe:["):
		return c.pipe
	case strings.HasPrefix(link, "/dev/pts/"), link == ownTerminal, link == "/dev/ptmx":
		return c.tty
	case strings.HasPrefix(link, "/memfd:"):
		return c.memory
	case link == "anon_inode:[timerfd]":
		return c.timer
	case link == "anon_inode:inotify", link == "anon_inode:[inotify]":
		return func(o Object, fd int) { c.note(o, AspectEvents, waiting(fd)) }
	case strings.HasPrefix(link, "/"):
		return func(o Object, fd int) { c.regular(o, fd, root) }
	}
	return nil
}

// waiting is how many bytes can be read now.
func waiting(fd int) string {
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil {
		return ""
	}
	return strconv.Itoa(n)
}

func (c *collector) pipe(o Object, fd int) {
	c.note(o, "bytes in it", waiting(fd))
	if n, err := unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0); err == nil {
		c.note(o, "room in it", strconv.Itoa(n))
	}
	c.owner(o, fd)
}

// owner notes whom a file signals.
func (c *collector) owner(o Object, fd int) {
	pid, err := unix.FcntlInt(uintptr(fd), unix.F_GETOWN, 0)
	if err != nil || pid == 0 {
		return
	}
	group := ""
	if pid < 0 {
		pid, group = -pid, "group "
	}
	c.note(o, "signals whom", group+strconv.Itoa(c.inner[pid]))
}

func (c *collector) tty(o Object, fd int) {
	if t, err := unix.IoctlGetTermios(fd, unix.TCGETS); err == nil {
		c.note(o, "terminal's modes", fmt.Sprintf("%x %x %x %x %d %x", t.Iflag, t.Oflag, t.Cflag, t.Lflag, t.Line, t.Cc))
	}
	if w, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ); err == nil {
		c.note(o, "terminal's size", fmt.Sprintf("%dx%d", w.Col, w.Row))
	}
}

func (c *collector) memory(o Object, fd int) {
	if n, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); err == nil {
		c.note(o, "seals", strconv.Itoa(n))
	}
	c.size(o, fd)
}

func (c *collector) size(o Object, fd int) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil {
		c.note(o, "size and mode", fmt.Sprintf("%d %o", st.Size, st.Mode))
	}
}

// regular looks at a file that has, or had, a name.
func (c *collector) regular(o Object, fd int, root uint64) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		c.note(o, "size and mode", fmt.Sprintf("%d %o", st.Size, st.Mode))
		if n := c.numbers(&st, root); n != "" {
			c.note(o, aspectNumber, n)
		}
		if lease, err := unix.FcntlInt(uintptr(fd), unix.F_GETLEASE, 0); err == nil && lease != unix.F_UNLCK {
			c.note(o, "lease", strconv.Itoa(lease))
		}
	case unix.S_IFIFO:
		c.pipe(o, fd)
	}
}

// timer notes whether a timer will fire. That it has fired is no difference: time goes on
// while its process stands still. The kernel starts a periodic one again that had fired.
func (c *collector) timer(o Object, fd int) {
	var t unix.ItimerSpec
	const often = 20 // one that fires all the time is now and then between two times
	for range often {
		if unix.TimerfdGettime(fd, &t) != nil {
			return
		}
		if t.Value != (unix.Timespec{}) {
			break
		}
	}
	n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	armed := t.Value.Sec != 0 || t.Value.Nsec != 0
	switch {
	case t.Interval.Sec == 0 && t.Interval.Nsec == 0 && (armed || n > 0):
		c.note(o, "timer", "set")
	case armed:
		c.note(o, "timer", "goes on")
	default:
		c.note(o, "timer", "stopped")
	}
}
