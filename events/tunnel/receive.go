package tunnel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// subscribe opens the inbox of c. The caller holds c.mu, so that no message is
// looked at before the subscription is known.
func (c *Conn) subscribe() error {
	if err := c.wire.receive(c); err != nil {
		return err
	}
	c.beat = time.AfterFunc(c.tempo.beat, c.tick)
	return nil
}

// ended is called when nothing more can be received.
func (c *Conn) ended(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.peerClosed { // it said that it would
		c.fail(why)
	}
	c.answered()
}

// deliver handles one message to the inbox. Its wire calls it from one goroutine, in the order of
// arrival, and may use data again afterwards.
func (c *Conn) deliver(reply string, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.failure != nil {
		return
	}
	f, err := parseFrame(data)
	if err != nil {
		return // not of this protocol, so not of the peer
	}
	switch {
	case f.kind == kindAccept && f.number == 0:
		c.accepted(f, reply)
	case f.kind == kindAbort && c.remote == "":
		c.fail(fmt.Errorf("%w: %s", ErrAborted, f.payload))
		c.answered()
	case f.conn == c.id && c.remote != "":
		c.inOrder(f)
	}
}

// noResponders: the server found no subscription for a message of ours.
func (c *Conn) noResponders() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.failure != nil {
		return
	}
	if c.remote == "" {
		c.fail(ErrNoListener)
		c.answered()
		return
	}
	if c.peerClosed || !c.deserted.IsZero() {
		return
	}
	// The peer may have closed properly, and its last words be under way on a
	// longer route than this message of our own server.
	c.deserted = time.Now().Add(c.tempo.grace)
	c.beat.Reset(c.tempo.grace)
}

// accepted takes the first listener that answers as the peer.
func (c *Conn) accepted(f frame, peer string) {
	if c.remote == "" && peer != "" {
		c.remote, c.id, c.seenFrames = peer, f.conn, 1
		_ = c.send(kindOpen, nil) // a failure has ended the connection
		c.answered()
		return
	}
	if f.conn != c.id && peer != "" {
		// Another listener answered as well. If the message fails, it finds out by
		// its pings.
		abort := frame{kind: kindAbort, conn: f.conn, payload: []byte("another listener was quicker")}
		_ = c.wire.send(peer, "", abort.append(nil))
	}
}

// answered ends the wait of a dial.
func (c *Conn) answered() {
	select {
	case <-c.opened:
	default:
		close(c.opened)
	}
}

// inOrder applies a frame of the peer, if it is the next one.
func (c *Conn) inOrder(f frame) {
	if f.number != c.seenFrames {
		c.giveUp(fmt.Errorf("%w: want message %d, got message %d", ErrLost, c.seenFrames, f.number))
		return
	}
	c.seenFrames++
	c.missed = 0
	switch f.kind {
	case kindOpen:
		c.beAccepted()
	case kindData:
		c.takeData(f.payload)
	case kindCredit:
		c.takeCredit(f.payload)
	case kindCloseWrite:
		c.peerDone = true
	case kindClose:
		c.peerDone, c.peerClosed = true, true
		c.beat.Stop()
	case kindAbort:
		c.fail(fmt.Errorf("%w: %s", ErrAborted, f.payload))
	}
	c.changed.Broadcast()
}

// beAccepted hands a listener's end to the application, now that the dialer has
// taken it: a request that two listeners answered, or one listener twice, is
// acted on once.
func (c *Conn) beAccepted() {
	if c.offer == nil {
		c.giveUp(errors.New("tunnel was opened twice"))
		return
	}
	if err := c.offer(c); err != nil {
		c.giveUp(err)
	}
	c.offer = nil
}

func (c *Conn) takeData(data []byte) {
	switch {
	case c.peerDone:
		c.giveUp(errors.New("tunnel got data after its end"))
	case c.received.Len()+len(data) > c.window:
		c.giveUp(fmt.Errorf("tunnel got more than %d unread bytes", c.window))
	default:
		c.received.Write(data)
	}
}

func (c *Conn) takeCredit(b []byte) {
	if len(b) != 8 {
		c.giveUp(errors.New("tunnel got a malformed credit"))
		return
	}
	read := binary.BigEndian.Uint64(b)
	if read < c.credit || read > c.sent {
		c.giveUp(fmt.Errorf("tunnel got credit for %d bytes, of %d that were sent", read, c.sent))
		return
	}
	c.credit = read
}

// giveUp fails the connection for a reason that only this end knows, and tells
// the other.
func (c *Conn) giveUp(err error) {
	_ = c.send(kindAbort, []byte(err.Error())) // the error at hand matters more
	c.fail(err)
}

// tick says that this end is alive, and counts how long nothing was heard of the
// other. It counts beats and not time, so that a machine that was asleep or a
// process that was stopped hears its backlog first.
func (c *Conn) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.failure != nil || c.peerClosed {
		return
	}
	if !c.deserted.IsZero() {
		c.leave()
		return
	}
	c.beat.Reset(c.tempo.beat)
	if c.remote == "" {
		return // the dial has a limit of its own
	}
	if c.missed++; c.missed > c.tempo.patience {
		silence := c.tempo.beat * time.Duration(c.tempo.patience)
		c.giveUp(fmt.Errorf("%w: nothing was heard from it for %s", ErrGone, silence))
		return
	}
	_ = c.send(kindPing, nil) // a failure has ended the connection
}

// leave ends a connection whose peer has no inbox any more, once its last words
// have had their time to arrive.
func (c *Conn) leave() {
	if wait := time.Until(c.deserted); wait > 0 {
		c.beat.Reset(wait)
		return
	}
	c.fail(fmt.Errorf("%w: its inbox has no subscriber any more", ErrGone))
}
