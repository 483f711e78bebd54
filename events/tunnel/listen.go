package tunnel

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/nats-io/nats.go"
)

// backlog is how many connections may wait for Accept; further ones are refused.
const backlog = 128

// queue makes one listener of several on the same subject get each request.
const queue = "tunnel"

// Listener takes connections that are dialed to its subject.
type Listener struct {
	nc    *nats.Conn
	sub   *nats.Subscription
	tempo tempo
	conns chan *Conn
	done  chan struct{}

	mu     sync.Mutex // guards closed, and sends to conns against Close
	closed bool
}

// Listen starts to take connections on subject, which may hold wildcards. When
// it returns, the server knows: a dial finds the listener. Listeners of the same
// subject share its connections.
func Listen(nc *nats.Conn, subject string) (*Listener, error) {
	return listen(nc, subject, usualTempo())
}

func listen(nc *nats.Conn, subject string, t tempo) (*Listener, error) {
	l := &Listener{nc: nc, tempo: t, conns: make(chan *Conn, backlog), done: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	sub, err := nc.QueueSubscribe(subject, queue, l.handshake)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", subject, err)
	}
	sub.SetClosedHandler(func(string) { _ = l.Close() })
	l.sub = sub
	if err := nc.Flush(); err != nil {
		_ = sub.Unsubscribe() // the flush failed, so the connection is of no use
		return nil, fmt.Errorf("listen on %s: %w", subject, err)
	}
	return l, nil
}

// Accept gives the next connection. It fails with the context's error, or with
// net.ErrClosed after Close or when the NATS connection is closed.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close stops listening. Connections that were accepted go on; those that wait
// for Accept are aborted.
func (l *Listener) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return net.ErrClosed
	}
	l.closed = true
	close(l.done)
	l.mu.Unlock()
	err := l.sub.Unsubscribe()
	if errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrBadSubscription) {
		err = nil // it is gone already
	}
	for {
		select {
		case c := <-l.conns:
			_ = c.Abort(errClosed.Error())
		default:
			return err
		}
	}
}

// handshake answers one request; NATS calls it from one goroutine.
func (l *Listener) handshake(m *nats.Msg) {
	if m.Reply == "" {
		return
	}
	hello, ok := bytes.CutPrefix(m.Data, []byte(magic))
	if !ok {
		l.refuse(m.Reply, "the request is not of this version of the tunnel protocol")
		return
	}
	if len(l.conns) == cap(l.conns) {
		l.refuse(m.Reply, errBusy.Error())
		return
	}
	c := newConn(&natsWire{nc: l.nc}, l.nc.NewInbox(), hello, l.tempo)
	c.offer = l.take
	if err := c.answer(m.Reply); err != nil {
		l.refuse(m.Reply, err.Error())
	}
}

var (
	errBusy   = errors.New("too many connections wait to be accepted")
	errClosed = errors.New("the listener was closed")
)

// take keeps a connection that its dialer has opened for Accept.
func (l *Listener) take(c *Conn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errClosed
	}
	select {
	case l.conns <- c:
		return nil
	default:
		return errBusy
	}
}

// refuse tells the dialer why; if that fails too, its dial times out.
func (l *Listener) refuse(dialer, reason string) {
	_ = l.nc.Publish(dialer, frame{kind: kindAbort, payload: []byte(reason)}.append(nil))
}

// answer makes c the peer of the dialer.
func (c *Conn) answer(dialer string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := rand.Read(c.id[:]); err != nil {
		return fmt.Errorf("name the connection: %w", err)
	}
	if err := c.subscribe(); err != nil {
		return err
	}
	c.remote = dialer
	return c.send(kindAccept, nil)
}
