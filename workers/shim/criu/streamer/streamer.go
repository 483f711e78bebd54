package streamer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// The names of the sockets in the images' directory.
const (
	CaptureSocket = "streamer-capture.sock"
	ServeSocket   = "streamer-serve.sock"
)

// Images is what criu's images come from or go to. Its methods are called one at
// a time; Pipe must not wait for the image's end, or criu waits for it.
type Images interface {
	// Has says whether a restore's image exists. It isn't asked in a dump.
	Has(name string) bool
	// Pipe takes over criu's other end of an image: to read from in a dump, to
	// write to in a restore. An error ends the streaming, and so criu.
	Pipe(name string, end *os.File) error
}

// Listener waits for the one connection that a criu makes.
type Listener struct {
	l       *net.UnixListener
	restore bool
}

// Listen makes the socket of that name in the directory dir, whose path may
// have any length.
func Listen(dir, name string) (*Listener, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open the images' directory: %w", err)
	}
	defer d.Close()
	address := fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), name)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: address})
	if err != nil {
		return nil, fmt.Errorf("listen for criu: %w", err)
	}
	l.SetUnlinkOnClose(false) // its path is no more; the directory goes as a whole
	return &Listener{l, name == ServeSocket}, nil
}

// Close makes an Accept that waits return.
func (l *Listener) Close() error { return l.l.Close() }

// Accept waits for criu. The error is net.ErrClosed after Close.
func (l *Listener) Accept(to Images) (*Conn, error) {
	c, err := l.l.AcceptUnix()
	if err != nil {
		return nil, fmt.Errorf("wait for criu: %w", err)
	}
	defer c.Close()
	f, err := c.File()
	if err == nil {
		err = unix.SetNonblock(int(f.Fd()), false) // as the calls below want it
	}
	if err != nil {
		return nil, fmt.Errorf("wait for criu: %w", err)
	}
	return &Conn{socket: f, restore: l.restore, to: to}, nil
}

// Conn is the connection of one criu.
type Conn struct {
	socket  *os.File
	restore bool
	to      Images

	mu  sync.Mutex // held over one request
	err error      // what ended it
}

// Run carries out what criu asks for until it opens no more images, and closes
// the connection.
func (c *Conn) Run() error {
	fd := int(c.socket.Fd())
	defer c.socket.Close()
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("wait for criu's requests: %w", err)
		}
		if err := c.CatchUp(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

// CatchUp carries out all that criu has asked for by now; io.EOF says that it
// was all there will be. It may be called beside Run, while criu waits for
// something else: after it no image is missing.
func (c *Conn) CatchUp() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil {
		n, _, err := unix.Recvfrom(int(c.socket.Fd()), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		switch {
		case err == unix.EAGAIN:
			return nil
		case err == unix.EINTR:
		case err != nil:
			c.err = fmt.Errorf("receive criu's request: %w", err)
		case n == 0:
			c.err = io.EOF
		default:
			c.err = c.request()
		}
	}
	return c.err
}

func (c *Conn) request() error {
	name, err := c.receiveName()
	if err != nil {
		return fmt.Errorf("receive criu's request: %w", err)
	}
	if c.restore {
		has := c.to.Has(name)
		if err := c.reply(has); err != nil {
			return fmt.Errorf("answer criu's request for %s: %w", name, err)
		}
		if !has {
			return nil
		}
	}
	end, err := c.receiveFile()
	if err != nil {
		return fmt.Errorf("receive criu's pipe for %s: %w", name, err)
	}
	return c.to.Pipe(name, end)
}

// maxRequest is well above what the longest name takes.
const maxRequest = 4096

func (c *Conn) receiveName() (string, error) {
	size := make([]byte, 4)
	if _, err := io.ReadFull(c.socket, size); err != nil {
		return "", err
	}
	n := binary.NativeEndian.Uint32(size)
	if n > maxRequest {
		return "", fmt.Errorf("it has %d bytes", n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(c.socket, b); err != nil {
		return "", err
	}
	return parseName(b)
}

// parseName decodes the message: one field, 1, a string.
func parseName(b []byte) (string, error) {
	const tag = 1<<3 | 2
	if len(b) < 2 || b[0] != tag {
		return "", errors.New("it can't be decoded")
	}
	n, used := binary.Uvarint(b[1:])
	if used <= 0 || n != uint64(len(b)-1-used) {
		return "", errors.New("it can't be decoded")
	}
	name := string(b[1+used:])
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return "", fmt.Errorf("%q is no name of an image", name)
	}
	return name, nil
}

func (c *Conn) reply(exists bool) error {
	b := binary.NativeEndian.AppendUint32(nil, 2)
	b = append(b, 1<<3, 0)
	if exists {
		b[len(b)-1] = 1
	}
	_, err := c.socket.Write(b)
	return err
}

func (c *Conn) receiveFile() (*os.File, error) {
	oob := make([]byte, unix.CmsgSpace(4))
	for {
		n, oobn, _, _, err := unix.Recvmsg(int(c.socket.Fd()), make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, io.ErrUnexpectedEOF
		}
		return parseFile(oob[:oobn])
	}
}

func parseFile(oob []byte) (*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		if fds, err := unix.ParseUnixRights(&m); err == nil && len(fds) == 1 {
			return os.NewFile(uintptr(fds[0]), "image"), nil
		}
	}
	return nil, errors.New("it came with no file")
}
