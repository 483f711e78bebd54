package attach

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// ErrReset: a forwarded connection ended before both sides had said that they send no more. What
// was carried may be a part only.
var ErrReset = errors.New("the forwarded connection was reset")

// RefusedError is the reason for a person why a port of the session takes no connection.
type RefusedError string

func (e RefusedError) Error() string { return string(e) }

// Forward asks the session at conn for a connection to one of its ports, calls open when it is
// there, and carries bytes between it and the connection that open gives until both sides are
// done. It closes conn, and what open gave: with a reset if it ended early, so that its user
// doesn't take a part for the whole.
//
// Before open was called the error is RefusedError if nothing listens at the port, RemoteError
// for another reason of the session's, or ErrLost.
func Forward(conn net.Conn, port uint16, open func() (net.Conn, error)) error {
	return ForwardDirect(conn, port, nil, open)
}

// ForwardDirect is Forward on a connection whose Hello said Direct. When the host offers a direct
// connection it calls dial, goes on over what that gives, and closes conn; when dial fails it goes on
// over conn.
func ForwardDirect(conn net.Conn, port uint16, dial func(Offer) (net.Conn, error), open func() (net.Conn, error)) error {
	conn, err := started(conn, Request{Op: OpForward, Port: port, Viewer: true}, dial)
	defer func() { conn.Close() }()
	if err != nil {
		return err
	}
	plain, err := open()
	if err != nil {
		return err
	}
	c := carrier{conn: conn, plain: plain, out: carried{FrameStdin, FrameStdinEOF}, in: carried{FrameStdout, FrameStdoutEOF}, whole: func() bool { return true }}
	return c.run()
}

// started asks for a connection to a port and waits until it is there. It gives the connection that is
// to be used then, which may be that of an offer.
func started(conn net.Conn, r Request, dial func(Offer) (net.Conn, error)) (net.Conn, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return conn, fmt.Errorf("encode the request: %w", err)
	}
	if err := WriteFrame(conn, FrameRequest, b); err != nil {
		return conn, ErrLost
	}
	kind, payload, err := ReadFrame(conn)
	if err == nil && kind == FrameOffer && dial != nil {
		if conn, err = take(conn, payload, dial); err == nil {
			kind, payload, err = ReadFrame(conn)
		}
	}
	switch {
	case err != nil:
		return conn, ErrLost
	case kind == FrameRefused:
		return conn, RefusedError(payload)
	case kind == FrameError:
		return conn, RemoteError(payload)
	case kind != FrameStarted:
		return conn, fmt.Errorf("ask for port %d: the session answers with %q", r.Port, kind)
	}
	return conn, nil
}

// take gives the connection that is to be used after an offer.
func take(conn net.Conn, payload []byte, dial func(Offer) (net.Conn, error)) (net.Conn, error) {
	var o Offer
	if err := json.Unmarshal(payload, &o); err != nil {
		return conn, fmt.Errorf("read the offer of a direct connection: %w", err)
	}
	direct, err := dial(o)
	if err != nil {
		return conn, WriteFrame(conn, FrameStay, nil)
	}
	conn.Close()
	return direct, nil
}

// ServeForward answers a request to forward with plain, a connection to the port. It closes plain,
// and returns when both sides are done or either is gone. When the session sends no more, whole
// says whether it ended the connection itself: the kernel ends those of processes that are killed in
// the same way.
func ServeForward(conn, plain net.Conn, whole func() bool) error {
	if err := WriteFrame(conn, FrameStarted, nil); err != nil {
		plain.Close()
		return ErrReset
	}
	c := carrier{conn: conn, plain: plain, out: carried{FrameStdout, FrameStdoutEOF}, in: carried{FrameStdin, FrameStdinEOF}, whole: whole}
	return c.run()
}

// WriteRefused answers a request to forward to a port where nothing listens.
func WriteRefused(w io.Writer, text string) error {
	return WriteFrame(w, FrameRefused, []byte(text))
}

// carried are the kinds of frames of one direction.
type carried struct{ data, end byte }

// carrier copies what is read of plain to conn as frames, and the other way round. The end of one
// direction leaves the other open.
type carrier struct {
	conn, plain net.Conn
	out, in     carried
	whole       func() bool // whether the end of what plain reads is one

	saidEnd atomic.Bool // plain has been read to its end
	once    sync.Once   // of broken
}

func (c *carrier) run() error {
	ended := make(chan error, 2)
	go func() { ended <- c.toFrames() }()
	go c.fromFrames(ended)
	whole := true
	for range 2 {
		if err := <-ended; err != nil {
			whole = false
			c.broken() // which ends the other, too
		}
	}
	if !whole {
		return ErrReset
	}
	return c.plain.Close()
}

// broken ends both connections, so that the user of either gets an error.
func (c *carrier) broken() {
	c.once.Do(func() {
		reset(c.plain)
		abort(c.conn)
	})
}

// frameSize is that of a frame that carries, at most, with its head: what one message of a tunnel over a
// stream has room for, and two of one through NATS.
const frameSize = 64<<10 - 64

func (c *carrier) toFrames() error {
	frame := make([]byte, frameSize)
	frame[0] = c.out.data
	for {
		n, err := c.plain.Read(frame[headSize:])
		if n > 0 {
			binary.BigEndian.PutUint32(frame[1:], uint32(n))
			if _, err := c.conn.Write(frame[:headSize+n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) && c.whole() {
			c.saidEnd.Store(true) // before the other end can close conn because of it
			return WriteFrame(c.conn, c.out.end, nil)
		}
		if err != nil {
			return err
		}
	}
}

// fromFrames tells ended how the direction ended, and reads on: conn can fail while the other
// direction waits for plain.
func (c *carrier) fromFrames(ended chan<- error) {
	in := frames{from: bufio.NewReaderSize(c.conn, frameSize)}
	err := c.receive(&in)
	ended <- err
	for err == nil {
		_, _, err = in.next()
	}
	if !c.saidEnd.Load() {
		c.broken()
	}
}

// receive returns nil at the end of the direction.
func (c *carrier) receive(in *frames) error {
	for {
		kind, payload, err := in.next()
		switch {
		case err != nil:
			return err
		case kind == c.in.data:
			_, err = c.plain.Write(payload)
		case kind == c.in.end:
			closeWrite(c.plain)
			return nil
		case kind == FrameError:
			return RemoteError(payload)
		}
		if err != nil {
			return err
		}
	}
}

func closeWrite(c net.Conn) {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		_ = h.CloseWrite() // its user may have closed it
	}
}

// abort ends a connection of the protocol. Without the frame that ends a direction the other end
// takes it for a failure, too; a tunnel's way there learns of an abort at once.
func abort(conn net.Conn) {
	if a, ok := conn.(interface{ Abort(reason string) error }); ok {
		_ = a.Abort(ErrReset.Error()) // it may have ended
	}
	conn.Close()
}

// reset closes a connection so that its other end gets an error.
func reset(c net.Conn) {
	if t, ok := c.(interface{ SetLinger(sec int) error }); ok {
		_ = t.SetLinger(0) // it may have ended, as the close says
	}
	c.Close()
}
