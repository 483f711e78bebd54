// Package control carries the messages between a worker, the shim of a session
// and the short-lived processes that the shim starts inside the session: JSON,
// with open files passed along where needed.
//
// It runs on sockets of type SOCK_SEQPACKET, so that a file belongs to exactly
// one message. What a message means is its user's business; a message never
// travels over anything but a local socket of root's, since it may hold the
// environment of a session.
package control

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Conn is one end. Send and Receive may run beside each other, but not two of
// either.
type Conn struct {
	socket *net.UnixConn
}

// chunk is how much of a message goes into one packet, below every default
// limit of a socket's buffer. The first byte of a packet says whether more
// follow; files come with the first.
const chunk = 64 << 10

// maxMessage bounds what Receive takes in.
const maxMessage = 64 << 20

// maxFiles is how many files one message may carry.
const maxFiles = 16

// Pair makes two connected ends: one for this process, one to hand to a child.
func Pair() (*Conn, *os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a control socket: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "control")
	ours, err := FromFile(os.NewFile(uintptr(pair[0]), "control"))
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

// FromFile takes over an inherited end and closes f.
func FromFile(f *os.File) (*Conn, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("open control socket: %w", err)
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, errors.New("open control socket: it is not a local one")
	}
	return &Conn{socket: u}, nil
}

// FromConn wraps an accepted or dialled connection of network "unixpacket".
func FromConn(u *net.UnixConn) *Conn { return &Conn{socket: u} }

// Close ends the connection: the other end receives io.EOF.
func (c *Conn) Close() error { return c.socket.Close() }

// SetDeadline bounds all that waits on the connection, as net.Conn has it.
func (c *Conn) SetDeadline(t time.Time) error { return c.socket.SetDeadline(t) }

// hangupPoll is how often AwaitHangup looks whether it is still to wait, in
// milliseconds.
const hangupPoll = 50

// AwaitHangup returns true when the other end is gone, and false when done is
// closed. It may run beside all else, and reads nothing.
func (c *Conn) AwaitHangup(done <-chan struct{}) (bool, error) {
	raw, err := c.socket.SyscallConn()
	if err != nil {
		return false, fmt.Errorf("watch control socket: %w", err)
	}
	for {
		select {
		case <-done:
			return false, nil
		default:
		}
		n := 0
		ctlErr := raw.Control(func(fd uintptr) {
			n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd)}}, hangupPoll)
		})
		switch {
		case ctlErr != nil:
			return false, fmt.Errorf("watch control socket: %w", ctlErr)
		case err != nil && err != unix.EINTR:
			return false, fmt.Errorf("watch control socket: %w", err)
		case n > 0:
			return true, nil // hang-ups are told unasked
		}
	}
}

// Send sends v and the files, which stay open here.
func (c *Conn) Send(v any, files ...*os.File) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode control message: %w", err)
	}
	var oob []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		oob = unix.UnixRights(fds...)
	}
	for {
		part, more := b, byte(0)
		if len(part) > chunk {
			part, more = b[:chunk], 1
		}
		if _, _, err := c.socket.WriteMsgUnix(append([]byte{more}, part...), oob, nil); err != nil {
			return fmt.Errorf("send control message: %w", err)
		}
		b, oob = b[len(part):], nil
		if more == 0 {
			return nil
		}
	}
}

// Receive waits for a message, decodes it into v and returns the files that came
// with it, which are the caller's to close. io.EOF says that the other end is
// gone.
func (c *Conn) Receive(v any) ([]*os.File, error) {
	var all []byte
	var files []*os.File
	late := false
	for {
		part, more, got, err := c.packet()
		if err == nil && len(got) > 0 && late {
			err = errors.New("receive control message: a file comes late")
		}
		files, late = append(files, got...), true
		if err == nil && len(all)+len(part) > maxMessage {
			err = fmt.Errorf("control message is longer than %d bytes", maxMessage)
		}
		if err != nil {
			closeAll(files)
			return nil, err
		}
		all = append(all, part...)
		if !more {
			break
		}
	}
	if err := json.Unmarshal(all, v); err != nil {
		closeAll(files)
		return nil, fmt.Errorf("decode control message: %w", err)
	}
	return files, nil
}

// ReceiveShort receives a message that is one packet and has no files. It is for an end of which nothing
// is known yet, and which could send much.
func (c *Conn) ReceiveShort(v any) error {
	part, more, files, err := c.packet()
	closeAll(files)
	if err == nil && (more || len(files) > 0) {
		err = errors.New("receive control message: it isn't a short one")
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(part, v); err != nil {
		return fmt.Errorf("decode control message: %w", err)
	}
	return nil
}

func (c *Conn) packet() (part []byte, more bool, files []*os.File, err error) {
	length, err := c.nextLength()
	if err != nil {
		return nil, false, nil, fmt.Errorf("receive control message: %w", err)
	}
	buf := make([]byte, min(length, chunk+1))
	oob := make([]byte, unix.CmsgSpace(4*maxFiles))
	n, oobn, flags, _, err := c.socket.ReadMsgUnix(buf, oob)
	if err != nil {
		return nil, false, nil, fmt.Errorf("receive control message: %w", err)
	}
	if files, err = parseFiles(oob[:oobn]); err != nil {
		return nil, false, nil, err
	}
	if n == 0 {
		return nil, false, files, io.EOF
	}
	if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		return nil, false, files, errors.New("receive control message: it was cut short")
	}
	return buf[1:n], buf[0] == 1, files, nil
}

func parseFiles(oob []byte) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("receive control message: %w", err)
	}
	var files []*os.File
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue // credentials or the like: not asked for
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "passed"))
		}
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// nextLength waits for a packet and returns its length in bytes, 0 at the end. A shim gets a short
// order now and then for as long as its session waits: its memory shouldn't grow by a whole chunk for each.
func (c *Conn) nextLength() (n int, err error) {
	raw, err := c.socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	readErr := raw.Read(func(fd uintptr) bool {
		n, _, err = unix.Recvfrom(int(fd), nil, unix.MSG_PEEK|unix.MSG_TRUNC)
		return err != unix.EAGAIN
	})
	return n, cmp.Or(readErr, err)
}
