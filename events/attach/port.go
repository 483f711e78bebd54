package attach

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// DialPort asks the session at conn for a connection to one of its ports, and gives that connection.
// dial takes the host's offers as for ForwardDirect. The errors are those of Forward; conn is closed then,
// and else with the connection. A caller that can wait no longer closes conn.
func DialPort(conn net.Conn, port uint16, dial func(Offer) (net.Conn, error)) (*PortConn, error) {
	conn, err := started(conn, Request{Op: OpForward, Port: port}, dial)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &PortConn{conn: conn, in: frames{from: bufio.NewReaderSize(conn, frameSize)}}, nil
}

// closeLimit is how long a close may take whose other end reads nothing.
const closeLimit = time.Second

// PortConn is a connection to a port of a session: what Forward carries, for programs that have no
// connection of their own to carry. Read gives io.EOF when the session's end has sent all, and ErrReset when
// the connection ended before that. One that a deadline has interrupted can only be closed.
type PortConn struct {
	conn net.Conn

	reading sync.Mutex // guards what is below, up to writing
	in      frames
	rest    []byte // of the payload that was read last
	ended   error  // why nothing more is read

	writing sync.Mutex // guards what is below
	frame   []byte
	closed  bool // for writing
}

// Read implements net.Conn.
func (c *PortConn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	for len(c.rest) == 0 && c.ended == nil && len(p) > 0 {
		kind, payload, err := c.in.next()
		timeout := net.Error(nil)
		switch {
		case errors.As(err, &timeout) && timeout.Timeout():
			c.ended = err
		case err != nil:
			c.ended = ErrReset
		case kind == FrameStdout:
			c.rest = payload
		case kind == FrameStdoutEOF:
			c.ended = io.EOF
		case kind == FrameError:
			c.ended = RemoteError(payload)
		}
	}
	if len(c.rest) == 0 {
		if len(p) == 0 {
			return 0, nil
		}
		return 0, c.ended
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// Write implements net.Conn.
func (c *PortConn) Write(p []byte) (n int, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.closed {
		return 0, net.ErrClosed
	}
	for len(p) > 0 {
		part := p[:min(len(p), frameSize-headSize)]
		c.frame = binary.BigEndian.AppendUint32(append(c.frame[:0], FrameStdin), uint32(len(part)))
		c.frame = append(c.frame, part...)
		if _, err := c.conn.Write(c.frame); err != nil {
			return n, err
		}
		n, p = n+len(part), p[len(part):]
	}
	return n, nil
}

// CloseWrite tells the session's end that no more comes. Reading goes on.
func (c *PortConn) CloseWrite() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	return WriteFrame(c.conn, FrameStdinEOF, nil)
}

// Close ends the connection. A session's end that still sends gets an error.
func (c *PortConn) Close() error {
	if c.writing.TryLock() { // else a Write is under way, which this ends
		if !c.closed {
			c.closed = true
			_ = c.conn.SetWriteDeadline(time.Now().Add(closeLimit)) // it may be closed, as the write says
			_ = WriteFrame(c.conn, FrameStdinEOF, nil)              // the other end may be gone, or read nothing
		}
		c.writing.Unlock()
	}
	return c.conn.Close()
}

// Abort ends the connection as one that broke: the session's end gets an error.
func (c *PortConn) Abort() { abort(c.conn) }

// LocalAddr implements net.Conn.
func (c *PortConn) LocalAddr() net.Addr { return c.conn.LocalAddr() }

// RemoteAddr implements net.Conn.
func (c *PortConn) RemoteAddr() net.Addr { return c.conn.RemoteAddr() }

// SetDeadline implements net.Conn.
func (c *PortConn) SetDeadline(t time.Time) error { return c.conn.SetDeadline(t) }

// SetReadDeadline implements net.Conn.
func (c *PortConn) SetReadDeadline(t time.Time) error { return c.conn.SetReadDeadline(t) }

// SetWriteDeadline implements net.Conn.
func (c *PortConn) SetWriteDeadline(t time.Time) error { return c.conn.SetWriteDeadline(t) }
