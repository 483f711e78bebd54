package preflight

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/diapause/diapause/workers/tree"
	"golang.org/x/sys/unix"
)

// lookers look at the open files of a tree. Pipes and sockets that several descriptors share
// are looked at once.
type lookers struct {
	opened *tree.Opened
	known  map[fileKey]File
}

// fileKey tells apart what is known of pipes and sockets: the ends of a pipe, by how they are
// open.
type fileKey struct {
	link string
	mode uint32
}

// of looks at the open files of a process.
func (s *lookers) of(pid int) ([]File, error) {
	fds, err := s.opened.FDs(pid)
	if err != nil {
		return nil, err
	}
	l := looker{pid: pid, handle: -1}
	defer l.close()
	files := make([]File, 0, len(fds))
	for _, fd := range fds {
		f, err := s.look(&l, fd)
		if gone(err) || err == syscall.EBADF { // closed meanwhile
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look at open file %d (%s): %w", fd.Num, fd.Link, err)
		}
		files = append(files, f)
	}
	return files, nil
}

func (s *lookers) look(l *looker, fd tree.FD) (File, error) {
	if !strings.HasPrefix(fd.Link, "pipe:[") && !strings.HasPrefix(fd.Link, "socket:[") {
		return l.look(fd)
	}
	var st unix.Stat_t
	if err := unix.Lstat(fd.Via(), &st); err != nil {
		return File{}, err
	}
	key := fileKey{fd.Link, st.Mode}
	if f, ok := s.known[key]; ok {
		f.Num = fd.Num
		if f.Socket != nil {
			own := *f.Socket
			f.Socket = &own
		}
		return f, nil
	}
	f, err := l.look(fd)
	if err == nil && f.Link == fd.Link {
		s.known[key] = f
	}
	return f, err
}

// looker looks at the open files of one process, which works on meanwhile.
type looker struct {
	pid    int
	handle int // of the process, for duplicates of its files; -1 until one is needed
}

func (l *looker) close() {
	if l.handle >= 0 {
		_ = unix.Close(l.handle)
	}
}

// looks is how often a descriptor is looked at that is another file each time.
const looks = 10

// look takes what is known of a descriptor from one file: a program that redirects its
// output may have put another in its place between two questions.
func (l *looker) look(fd tree.FD) (File, error) {
	for range looks {
		f, err := l.lookOnce(fd)
		link, linkErr := os.Readlink(fd.Via())
		if linkErr != nil {
			return f, linkErr
		}
		if link == fd.Link {
			return f, err
		}
		fd.Link = link
	}
	return File{}, fs.ErrNotExist // none of them stays
}

func (l *looker) lookOnce(fd tree.FD) (File, error) {
	f, err := lookAtFile(fd)
	if err != nil || !f.needsDuplicate() {
		return f, err
	}
	if l.handle < 0 {
		if l.handle, err = unix.PidfdOpen(l.pid, 0); err != nil {
			return f, err
		}
	}
	if err := f.lookAtDuplicate(l.handle); err != nil || f.Socket == nil || f.Socket.Domain != unix.AF_UNIX {
		return f, err
	}
	f.Socket.Moved, err = l.movedTo(f.Num)
	return f, err
}

func lookAtFile(fd tree.FD) (File, error) {
	f := File{Num: fd.Num, Link: fd.Link, TTY: -1}
	info, err := readSmall(fmt.Sprintf("/proc/%d/fdinfo/%d", fd.PID, fd.Num))
	if err != nil {
		return f, err
	}
	f.parseInfo(info)
	var st unix.Stat_t
	if err := unix.Stat(fd.Via(), &st); err != nil {
		if gone(err) {
			return f, err
		}
		return f, nil // a file system that can't be reached: CRIU will say so
	}
	f.Type, f.Names, f.Bytes, f.Device = st.Mode&unix.S_IFMT, uint64(st.Nlink), st.Blocks*512, st.Dev
	f.Major, f.Minor = unix.Major(st.Rdev), unix.Minor(st.Rdev)
	f.Huge = huge(fd.Via(), st)
	return f, nil
}

// hugePage is the smallest huge page of x86-64, in bytes: the block size of such a file.
const hugePage = 2 << 20

// huge reports whether a file is made of huge pages.
func huge(via string, st unix.Stat_t) bool {
	var fs unix.Statfs_t
	return st.Mode&unix.S_IFMT == unix.S_IFREG && st.Blksize >= hugePage && unix.Statfs(via, &fs) == nil && fs.Type == unix.HUGETLBFS_MAGIC
}

// readSmall reads the first lines of a file of /proc, with no more calls than that needs.
func readSmall(name string) (string, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var buf [1024]byte
	n, err := unix.Read(fd, buf[:])
	return string(buf[:max(n, 0)]), err
}

// parseInfo reads /proc/PID/fdinfo/N.
func (f *File) parseInfo(text string) {
	for line := range strings.Lines(text) {
		key, rest, _ := strings.Cut(line, ":")
		value := strings.TrimSpace(rest)
		switch key {
		case "flags":
			n, _ := strconv.ParseInt(value, 8, 64)
			f.Flags = int(n)
		case "mnt_id":
			f.Mount, _ = strconv.Atoi(value)
		case "tty-index":
			f.TTY, _ = strconv.Atoi(value)
		case "scm_fds":
			f.Passing, _ = strconv.Atoi(value)
		case "it_value", "it_interval", "ticks", "settime flags":
			f.Timer.parse(key, value)
		case "eventfd-semaphore":
			f.Counts = value == "1"
		case "Pid":
			f.Target, _ = strconv.Atoi(value)
			f.Parent = parentOf(f.Target)
		}
	}
}

// parentOf reads who started a process; 0 if it is gone.
func parentOf(pid int) int {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "PPid:"); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(rest))
			return n
		}
	}
	return 0
}

// needsDuplicate reports whether more has to be known than /proc tells: of
// sockets, and of pipes and terminals whether their other end is still held.
func (f *File) needsDuplicate() bool {
	switch f.Type {
	case unix.S_IFSOCK:
		return f.Flags&unix.O_PATH == 0
	case unix.S_IFIFO:
		return strings.HasPrefix(f.Link, "pipe:[")
	case unix.S_IFCHR:
		return f.slave()
	case unix.S_IFDIR:
		return f.Flags&unix.O_PATH == 0
	}
	return f.Link == inotifyLink || f.Link == epollLink
}

// lookAtDuplicate asks a duplicate of the file, which is closed at once.
func (f *File) lookAtDuplicate(handle int) error {
	fd, err := unix.PidfdGetfd(handle, f.Num, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	switch {
	case f.Link == inotifyLink:
		f.Unread, err = unix.IoctlGetInt(fd, unix.TIOCINQ)
		return err
	case f.Link == epollLink:
		f.Polls = polls(fd)
		return nil
	case f.Type == unix.S_IFDIR:
		owner, _ := unix.FcntlInt(uintptr(fd), unix.F_GETOWN, 0)
		f.Watched = owner != 0
		return nil
	}
	ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	if _, err := unix.Poll(ready, 0); err != nil && err != unix.EINTR {
		return err
	}
	f.Hangup = ready[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
	if f.Type == unix.S_IFCHR {
		f.Line, _ = unix.IoctlGetInt(fd, unix.TIOCGETD)
	}
	if f.Type != unix.S_IFSOCK {
		return nil
	}
	f.Socket, err = lookAtSocket(fd)
	if err == nil {
		f.Socket.Unread = ready[0].Revents&unix.POLLIN != 0
		f.Socket.Failed = ready[0].Revents&unix.POLLERR != 0
		f.Socket.lookAtQueue(fd)
		f.Socket.Inode, _ = tree.FD{Link: f.Link}.Inode("socket")
	}
	return err
}

func lookAtSocket(fd int) (*Socket, error) {
	s := &Socket{}
	for _, ask := range []struct {
		option int
		to     *int
	}{{unix.SO_DOMAIN, &s.Domain}, {unix.SO_TYPE, &s.Type}, {unix.SO_PROTOCOL, &s.Protocol}} {
		n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, ask.option)
		if err != nil {
			return nil, err
		}
		*ask.to = n
	}
	if s.inet() && s.Type == unix.SOCK_DGRAM {
		cork, _ := unix.GetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_CORK)
		queued, _ := unix.IoctlGetInt(fd, unix.TIOCOUTQ)
		s.Corked = cork != 0 && queued > 0
	}
	return s, nil
}

func (s *Socket) inet() bool { return s.Domain == unix.AF_INET || s.Domain == unix.AF_INET6 }

// slave reports whether the file is the inner end of a pseudo-terminal.
func (f *File) slave() bool {
	return f.Type == unix.S_IFCHR && f.Major >= 136 && f.Major <= 143
}

// number is that of a slave within its devpts.
func (f *File) number() int { return int(f.Major-136)*256 + int(f.Minor) }

// inside is what a terminal of the session's own devpts is called there. Its
// link may say otherwise: it has the path by which the file was opened, which
// for a shim is one outside the session.
func (f *File) inside() string { return "/dev/pts/" + strconv.Itoa(f.number()) }

// mappingsOf looks at what a process has mapped.
func mappingsOf(pid int) ([]Mapping, error) {
	all, err := tree.Mappings(pid)
	if err != nil {
		return nil, err
	}
	mappings := make([]Mapping, 0, len(all))
	for _, m := range all {
		found := Mapping{Start: m.Start, Path: m.Path}
		var st unix.Stat_t
		err := unix.Stat(m.Via(), &st)
		switch {
		case err == nil:
			found.Type, found.Names, found.Bytes = st.Mode&unix.S_IFMT, uint64(st.Nlink), st.Blocks*512
			found.Major, found.Minor = unix.Major(st.Rdev), unix.Minor(st.Rdev)
			found.Huge = huge(m.Via(), st)
		case gone(err):
			continue // unmapped meanwhile
		case err == unix.EPERM:
			return nil, fmt.Errorf("look at mapping %x (%s): %w", m.Start, m.Path, err)
		}
		mappings = append(mappings, found)
	}
	return mappings, nil
}
