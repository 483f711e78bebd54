package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/direct"
	"github.com/diapause/diapause/events/tunnel"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/ingress"
)

var (
	_ ingress.Waker  = (*Sessions)(nil)
	_ ingress.Leaser = (*Sessions)(nil)
	_ ingress.Dialer = (*Sessions)(nil)
)

// Sessions reaches sessions through a NATS server. It may be used from many goroutines at once.
type Sessions struct {
	locate func() (events.Options, error)
	key    string // of its leases
	ways   direct.Ways

	mu     sync.Mutex
	client *events.Client // nil before the first use
	url    string         // that client connects to
	said   map[schemas.Name]time.Time
}

// New gives sessions at the server that locate says. It is called again while the connection is lost: the
// `diapause up` of a machine may come back at another address.
func New(locate func() (events.Options, error)) *Sessions {
	return &Sessions{locate: locate, key: "ingress-" + nuid.Next(), said: map[schemas.Name]time.Time{}}
}

// On gives sessions over a connection of the caller's, which Close leaves open. User is the NATS user that it is.
func On(nc *nats.Conn, user string) *Sessions {
	s := New(func() (events.Options, error) { return events.Options{}, errOwn })
	s.client = events.New(nc, events.Options{By: "ingress", User: user})
	return s
}

// errOwn: there is no other server than the one that a connection was made to.
var errOwn = errors.New("the connection isn't made again")

// Close ends all leases, and the connection.
func (s *Sessions) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		_ = s.client.Close() // leases that it can't release run out
	}
}

// connected gives the client, with a connection where there is a server.
func (s *Sessions) connected() (*events.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil && s.client.API().Conn().IsConnected() {
		return s.client, nil
	}
	o, err := s.locate()
	switch {
	case s.client != nil && (err != nil || o.URL == s.url):
		return s.client, nil // it connects again by itself
	case err != nil:
		return nil, err
	}
	c, err := events.Connect(o)
	if err != nil {
		return nil, err
	}
	if s.client != nil {
		go s.client.Close() // to a server that is gone: it takes a moment
	}
	s.client, s.url = c, o.URL
	return c, nil
}

func (s *Sessions) ask(ctx context.Context, verb string, r schemas.Request, out any) error {
	c, err := s.connected()
	if err != nil {
		return err
	}
	asking, stop := context.WithCancel(ctx)
	defer stop()
	lost := c.API().Conn().StatusChanged(nats.RECONNECTING, nats.CLOSED)
	defer c.API().Conn().RemoveStatusListener(lost)
	go func() {
		select {
		case <-lost: // with the answer
			stop()
		case <-asking.Done():
		}
	}()
	err = c.API().Ask(asking, verb, r, out)
	if err != nil && schemas.CodeOf(err) == "" && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", events.ErrLost, err)
	}
	return err
}

// Look implements ingress.Waker.
func (s *Sessions) Look(ctx context.Context, t ingress.Target) (schemas.View, error) {
	var v schemas.View
	if t.UID == "" {
		return v, s.ask(ctx, "show", schemas.Request{Name: t.Name.String()}, &v)
	}
	var all []schemas.View
	if err := s.ask(ctx, "list", schemas.Request{}, &all); err != nil {
		return v, err
	}
	for _, v := range all {
		if v.UID == t.UID {
			return v, nil
		}
	}
	return v, &schemas.APIError{Code: schemas.CodeNoSession, Text: fmt.Sprintf("no such session: uid %s", t.UID)}
}

// askAgain is the pause before a session is asked for again, if there was no one to ask.
const askAgain = 200 * time.Millisecond

// Ensure implements ingress.Waker.
func (s *Sessions) Ensure(ctx context.Context, n schemas.Name, why ingress.Why) (v schemas.View, err error) {
	for {
		err = s.ask(ctx, "ensure", schemas.Request{Name: n.String(), Reason: why.String()}, &v)
		switch {
		case err == nil:
			s.due(n)
			return v, nil
		case !passes(err):
			return v, err
		}
		select {
		case <-time.After(askAgain):
		case <-ctx.Done():
			return v, err
		}
	}
}

// passes reports whether an error may be over the next time.
func passes(err error) bool {
	switch schemas.ReasonOf(err) {
	case schemas.ReasonNoServer, schemas.ReasonStopping, schemas.ReasonConflict, schemas.ReasonUndone, schemas.ReasonBusy:
		return true
	}
	return false
}

// Follow implements ingress.Waker.
func (s *Sessions) Follow(n schemas.Name, step func(schemas.Progress)) (stop func()) {
	c, err := s.connected()
	if err != nil {
		return func() {}
	}
	sub, err := c.API().Conn().Subscribe(schemas.SubjectProgress+"."+n.Key(), func(m *nats.Msg) {
		var p schemas.Progress
		if json.Unmarshal(m.Data, &p) == nil {
			step(p)
		}
	})
	if err != nil {
		return func() {}
	}
	return func() { _ = sub.Unsubscribe() } // of a connection that is closed: nothing to do
}

const (
	// every is the least time between two activities of a session: less is said later, and might be heard after a
	// suspend that a person asked for, and undo it.
	every = time.Second
	// remembered bounds the sessions whose last activity is known.
	remembered = 10_000
)

// due reports whether activity of a session is to be said now, and notes that it is. Ensure has said it, too.
func (s *Sessions) due(n schemas.Name) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.said[n]) < every {
		return false
	}
	if len(s.said) >= remembered {
		clear(s.said)
	}
	s.said[n] = now
	return true
}

// Hold implements ingress.Leaser.
func (s *Sessions) Hold(n schemas.Name, why ingress.Why, fresh bool) (release func()) {
	c, err := s.connected()
	if err != nil {
		return func() {}
	}
	of, err := c.Session(n.String())
	if err != nil {
		return func() {}
	}
	because := events.Because(why.String())
	if fresh && s.due(n) {
		of.HTTP(because)
	}
	how := []events.How{because}
	if !fresh {
		how = append(how, events.Reconnected) // what comes back doesn't undo a suspend
	}
	l, err := of.Present(context.Background(), s.key, 0, how...)
	if err != nil {
		return func() {} // the client was closed
	}
	return sync.OnceFunc(func() {
		if fresh && s.due(n) {
			of.HTTP(because)
		}
		_ = l.Close() // never fails
	})
}

// Dial implements ingress.Dialer.
func (s *Sessions) Dial(ctx context.Context, v schemas.View, port uint16) (net.Conn, error) {
	c, err := s.connected()
	if err != nil {
		return nil, err
	}
	try, _ := s.ways.Before(v.Host, time.Now())
	hello, err := json.Marshal(attach.Hello{Name: v.Name, UID: v.UID, Forward: true, Direct: try})
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	conn, err := tunnel.Dial(ctx, c.API().Conn(), schemas.SubjectHost+"."+string(v.Host)+".dial", hello)
	if err != nil {
		return nil, err
	}
	defer abortAtEnd(ctx, conn)()
	stop := func() bool { return true }
	defer func() { stop() }()
	up, err := attach.DialPort(conn, port, func(o attach.Offer) (net.Conn, error) {
		to, err := direct.Dial(ctx, o, v.Name, port)
		s.ways.After(v.Host, time.Now(), o.Address, err)
		if err != nil {
			return nil, err
		}
		stop = abortAtEnd(ctx, to)
		return to, nil
	})
	var refused attach.RefusedError
	switch {
	case errors.As(err, &refused):
		return nil, fmt.Errorf("%w: %w", ingress.ErrRefused, err)
	case err != nil:
		return nil, err
	}
	return up, nil
}

// abortAtEnd ends a connection when ctx ends before stop is called.
func abortAtEnd(ctx context.Context, conn *tunnel.Conn) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = conn.Abort("interrupted") }) // else it has ended
}
