package tunnel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// What ends a connection other than by Close; match with errors.Is.
var (
	// ErrLost: NATS dropped a message of the connection, or delivered one twice.
	ErrLost = errors.New("a message of the tunnel was lost on its way")
	// ErrGone: the other end has vanished without closing the connection, or
	// can't be reached any more.
	ErrGone = errors.New("the other end of the tunnel is gone")
	// ErrAborted: the other end gave up; its reason follows in the text.
	ErrAborted = errors.New("the other end of the tunnel gave up")
	// ErrPeerClosed: a write found that the other end has closed.
	ErrPeerClosed = errors.New("the other end of the tunnel has closed it")
	// ErrNoListener: there is no listener on the subject that was dialed.
	ErrNoListener = errors.New("no listener")
)

// errNATSClosed is how the connection ends when the NATS connection is closed
// for good beneath it.
var errNATSClosed = fmt.Errorf("%w: the NATS connection was closed", ErrGone)

// Conn is one end of a connection. It implements net.Conn; all methods may be
// called from several goroutines at once.
//
// What was received before the other end closed, or before the connection
// failed, is read first; then Read gives io.EOF or the failure.
type Conn struct {
	wire   wire
	local  string // our inbox
	hello  []byte
	tempo  tempo
	window int           // as Window
	opened chan struct{} // closed when the dialer knows its peer or has failed

	writing sync.Mutex // held for a whole Write, so that writes don't interleave

	mu      sync.Mutex        // guards all below
	changed *sync.Cond        // what Read and Write wait for may have changed
	offer   func(*Conn) error // hands a listener's end to Accept; nil once it has
	remote  string            // the peer's inbox; empty until the dialer was answered
	id      connID
	beat    *time.Timer
	missed  int // beats since the peer was last heard
	// deserted is when to end the connection after the server said that the peer's inbox
	// has no subscriber any more; zero while it has one.
	deserted time.Time

	sentFrames, seenFrames uint64
	message                []byte // scratch of send

	received bytes.Buffer // data that the application hasn't read
	consumed uint64       // bytes that it has read
	credited uint64       // the part of consumed that the peer was told
	sent     uint64       // data bytes sent
	credit   uint64       // the part of sent that the peer's application has read

	readDeadline, writeDeadline deadline

	peerDone    bool  // no more data will come
	peerClosed  bool  // the peer reads no more of what we write
	writeClosed bool  // CloseWrite was called
	closed      bool  // Close was called
	failure     error // why the connection ended before it was closed
}

// tempo is how a connection notices that its peer is gone.
type tempo struct {
	beat     time.Duration // between pings
	patience int           // beats without a word from the peer that end it
	grace    time.Duration // for a close that is under way when the inbox is gone already
}

func usualTempo() tempo {
	return tempo{beat: 5 * time.Second, patience: 5, grace: time.Second}
}

func newConn(w wire, local string, hello []byte, t tempo) *Conn {
	c := &Conn{wire: w, local: local, hello: hello, tempo: t, window: Window, opened: make(chan struct{})}
	c.changed = sync.NewCond(&c.mu)
	return c
}

// Hello gives what the dialer sent along with its request.
func (c *Conn) Hello() []byte { return c.hello }

// Read reads what the other end wrote. It fails with os.ErrDeadlineExceeded
// after the deadline and with net.ErrClosed after Close.
func (c *Conn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.closed:
			return 0, net.ErrClosed
		case c.readDeadline.passed:
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		case c.received.Len() > 0:
			return c.consume(p)
		case c.peerDone:
			return 0, io.EOF
		case c.failure != nil:
			return 0, c.failure
		}
		c.changed.Wait()
	}
}

// Gone reports whether the other end was closed, and reads no more: to a reader that is the same
// end of the data as CloseWrite.
func (c *Conn) Gone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peerClosed
}

// consume hands out received bytes and lets the peer send as many more, in
// steps large enough that small reads don't cost a message each.
func (c *Conn) consume(p []byte) (int, error) {
	n, _ := c.received.Read(p)
	c.consumed += uint64(n)
	if c.consumed-c.credited >= uint64(c.window/4) && c.failure == nil && !c.peerDone {
		c.credited = c.consumed
		c.send(kindCredit, binary.BigEndian.AppendUint64(nil, c.consumed))
	}
	return n, nil
}

// Write sends p. It waits while Window bytes are unread at the other end, and
// returns when NATS, or the buffer of a stream, has taken the last message, not when it was read. It fails
// with os.ErrDeadlineExceeded after the deadline, net.ErrClosed after Close or
// CloseWrite, and ErrPeerClosed when the other end no longer reads; n bytes are
// on their way then.
func (c *Conn) Write(p []byte) (n int, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(p) == 0 {
		return 0, c.writable()
	}
	for n < len(p) {
		room, err := c.waitForRoom()
		if err != nil {
			return n, err
		}
		part := p[n:min(len(p), n+room)]
		c.sent += uint64(len(part))
		if err := c.send(kindData, part); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

// writable says why nothing may be written, if so.
func (c *Conn) writable() error {
	switch {
	case c.closed, c.writeClosed:
		return net.ErrClosed
	case c.failure != nil:
		return c.failure
	case c.peerClosed:
		return ErrPeerClosed
	case c.writeDeadline.passed:
		return os.ErrDeadlineExceeded
	}
	return nil
}

// waitForRoom gives how many bytes may be sent in one message now.
func (c *Conn) waitForRoom() (int, error) {
	for {
		if err := c.writable(); err != nil {
			return 0, err
		}
		if room := c.window - int(c.sent-c.credit); room > 0 && !c.wire.full() {
			return min(room, c.wire.limit()-frameHeader), nil
		}
		c.changed.Wait()
	}
}

// CloseWrite tells the other end that no more data comes: its Read gives io.EOF
// after what was sent. Reading goes on.
func (c *Conn) CloseWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed, c.writeClosed:
		return net.ErrClosed
	case c.failure != nil:
		return c.failure
	}
	c.writeClosed = true
	c.changed.Broadcast()
	if c.peerClosed {
		return nil
	}
	return c.send(kindCloseWrite, nil)
}

// Close ends the connection. The other end reads what was sent before and then
// io.EOF. Nothing more is received. A second Close gives net.ErrClosed.
//
// NATS may still hold the last messages in its buffer: a program that exits
// right away must close or flush its nats.Conn first.
func (c *Conn) Close() error { return c.close(kindClose, nil) }

// Abort ends the connection as failed: the other end gets ErrAborted with the
// reason, which is for a person to read.
func (c *Conn) Abort(reason string) error { return c.close(kindAbort, []byte(reason)) }

func (c *Conn) close(how kind, payload []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	var err error
	if c.failure == nil && !c.peerClosed && c.remote != "" {
		err = c.send(how, payload)
	}
	c.closed = true
	c.received = bytes.Buffer{}
	c.release()
	return err
}

// send publishes the next frame. A failure of NATS ends the connection, since
// the number is used up. The caller holds c.mu.
func (c *Conn) send(k kind, payload []byte) error {
	f := frame{kind: k, conn: c.id, number: c.sentFrames, payload: payload}
	c.sentFrames++
	c.message = f.append(c.message[:0])
	reply := ""
	if k == kindPing || k == kindAccept {
		// With a reply subject the server says so when no client gets the message; and
		// the dialer learns it from the accept.
		reply = c.local
	}
	if err := c.wire.send(c.remote, reply, c.message); err != nil {
		err = fmt.Errorf("send through tunnel: %w", err)
		c.fail(err)
		return err
	}
	return nil
}

// fail ends the connection with err, if it still goes on.
func (c *Conn) fail(err error) {
	if c.closed || c.failure != nil {
		return
	}
	c.failure = err
	c.release()
}

// release gives back what the connection holds and wakes everyone who waits.
// The caller holds c.mu and has set closed or failure.
func (c *Conn) release() {
	c.wire.end()
	if c.beat != nil {
		c.beat.Stop()
	}
	c.readDeadline.stop()
	c.writeDeadline.stop()
	c.changed.Broadcast()
}

// SetDeadline sets both deadlines; the zero time removes them.
func (c *Conn) SetDeadline(t time.Time) error {
	return c.setDeadlines(t, &c.readDeadline, &c.writeDeadline)
}

// SetReadDeadline sets the time after which Read gives os.ErrDeadlineExceeded.
func (c *Conn) SetReadDeadline(t time.Time) error {
	return c.setDeadlines(t, &c.readDeadline)
}

// SetWriteDeadline sets the time after which Write gives os.ErrDeadlineExceeded.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.setDeadlines(t, &c.writeDeadline)
}

func (c *Conn) setDeadlines(t time.Time, which ...*deadline) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	for _, d := range which {
		c.setDeadline(d, t)
	}
	c.changed.Broadcast()
	return nil
}

// Addr is a NATS subject as a net.Addr.
type Addr string

// Network gives "nats".
func (Addr) Network() string { return "nats" }

func (a Addr) String() string { return string(a) }

// LocalAddr gives the inbox of this end.
func (c *Conn) LocalAddr() net.Addr { return Addr(c.local) }

// RemoteAddr gives the inbox of the other end.
func (c *Conn) RemoteAddr() net.Addr {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Addr(c.remote)
}
