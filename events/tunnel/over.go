package tunnel

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// StreamWindow is in place of Window where no server lies between: a direction may be far away, and fast.
const StreamWindow = 1 << 20

// maxPart is the largest message on a stream, its header included.
const maxPart = 64 << 10

// errEnded is how the connection ends when the one beneath it does.
var errEnded = fmt.Errorf("%w: the connection to it ended", ErrGone)

// Over makes one end of a connection of stream, which has brought both ends together and is the
// Conn's from now on; the other end calls it, too. Two goroutines run until the Conn is closed
// or fails, and what was written is sent or stream takes nothing for too long.
func Over(stream net.Conn) *Conn { return over(stream, usualTempo()) }

func over(stream net.Conn, t tempo) *Conn {
	w := &streamWire{stream: stream, patience: t.beat * time.Duration(t.patience), readAll: make(chan struct{})}
	w.more = sync.NewCond(&w.mu)
	c := newConn(w, stream.LocalAddr().String(), nil, t)
	c.window, c.remote = StreamWindow, stream.RemoteAddr().String()
	close(c.opened)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.beat = time.AfterFunc(t.beat, c.tick)
	_ = w.receive(c) // it never fails
	return c
}

// streamWire carries messages over a stream, each after its length in four bytes.
type streamWire struct {
	stream   net.Conn
	patience time.Duration // for the last messages to be taken
	readAll  chan struct{} // closed when the stream gives no more

	mu      sync.Mutex // guards all below
	more    *sync.Cond // pending, over or failed has changed
	pending []byte     // what was sent and the stream has still to take
	over    bool       // no more will be pending
	failed  error      // why nothing can be sent
}

func (w *streamWire) receive(c *Conn) error {
	go w.write(c)
	go func() {
		_ = w.read(c) // in every case it is over
		close(w.readAll)
		c.ended(errEnded)
		w.fail(errEnded)
	}()
	return nil
}

func (w *streamWire) read(c *Conn) error {
	in := bufio.NewReaderSize(w.stream, maxPart)
	message := make([]byte, maxPart)
	for {
		var head [4]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return err
		}
		size := binary.BigEndian.Uint32(head[:])
		if size > maxPart {
			return fmt.Errorf("message has %d bytes, more than %d", size, maxPart)
		}
		if _, err := io.ReadFull(in, message[:size]); err != nil {
			return err
		}
		c.deliver("", message[:size])
	}
}

// write gives the stream what is pending until no more will be, and closes it. What the peer still
// sends is read before: TCP drops what it hasn't delivered when a connection is closed with data unread.
func (w *streamWire) write(c *Conn) {
	defer w.stream.Close()
	var taken []byte
	for {
		w.mu.Lock()
		for len(w.pending) == 0 && !w.over && w.failed == nil {
			w.more.Wait()
		}
		taken, w.pending = w.pending, taken[:0]
		failed := w.failed
		w.mu.Unlock()
		switch half, ok := w.stream.(interface{ CloseWrite() error }); {
		case failed != nil:
			return
		case len(taken) == 0:
			if ok && half.CloseWrite() == nil {
				<-w.readAll
			}
			return
		}
		c.mu.Lock() // so that a Write doesn't miss it
		c.changed.Broadcast()
		c.mu.Unlock()
		if _, err := w.stream.Write(taken); err != nil {
			w.fail(fmt.Errorf("send to %s: %w", w.stream.RemoteAddr(), err))
			return
		}
	}
}

func (w *streamWire) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == nil {
		w.failed = err
	}
	w.more.Broadcast()
}

// What a stream has still to take, in bytes: above fullAt data waits, and above maxPending the peer
// takes not even what is said about the other direction.
const (
	fullAt     = 256 << 10
	maxPending = 2 * fullAt
)

var errFull = errors.New("the other end takes nothing")

// send needs no addresses: there is one peer.
func (w *streamWire) send(_, _ string, data []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.failed != nil:
		return w.failed
	case len(w.pending)+len(data) > maxPending:
		return errFull
	}
	w.pending = binary.BigEndian.AppendUint32(w.pending, uint32(len(data)))
	w.pending = append(w.pending, data...)
	w.more.Signal()
	return nil
}

func (w *streamWire) limit() int { return maxPart }

func (w *streamWire) full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.pending) >= fullAt && w.failed == nil
}

func (w *streamWire) end() {
	_ = w.stream.SetDeadline(time.Now().Add(w.patience)) // it fails on a closed one
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.more.Broadcast()
}
