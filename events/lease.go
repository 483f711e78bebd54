package events

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nuid"

	"github.com/diapause/diapause/schemas"
)

// Lease is something that lasts: while it is open its session isn't suspended for
// idleness. It is renewed at a third of its lifetime; a service that dies leaves one
// that runs out by itself.
type Lease struct {
	c       *Client
	subject string
	by      string
	end     sync.Once
	forget  func() bool // stops listening to the context
}

// Present: a person is connected. The connection's key tells it from others; one is made
// if it is empty. The lease ends on Close or when ctx ends, else after ttl
// (schemas.DefaultLease if 0) without renewal. Its end is no activity.
func (s Session) Present(ctx context.Context, connection string, ttl time.Duration, how ...How) (*Lease, error) {
	return s.lease(ctx, schemas.KindPresence, connection, ttl, how)
}

// Busy: an operation is under way in it, a build or an agent's turn. When it ends, a
// grace begins. The other words are those of Present.
func (s Session) Busy(ctx context.Context, operation string, ttl time.Duration, how ...How) (*Lease, error) {
	return s.lease(ctx, schemas.KindBusy, operation, ttl, how)
}

// Hold: it is not to be suspended for idleness, for any reason. The other
// words are those of Present.
func (s Session) Hold(ctx context.Context, name string, ttl time.Duration, how ...How) (*Lease, error) {
	return s.lease(ctx, schemas.KindHold, name, ttl, how)
}

// shortest is a lease that can be renewed in time on a busy machine.
const shortest = time.Second

func (s Session) lease(ctx context.Context, k schemas.Kind, key string, ttl time.Duration, how []How) (*Lease, error) {
	key, ttl = cmp.Or(key, nuid.Next()), cmp.Or(ttl, schemas.DefaultLease)
	if ttl < shortest || ttl > schemas.MaxLease {
		return nil, fmt.Errorf("%s of session %s for %s: want %s to %s", k, s.name, ttl, shortest, schemas.MaxLease)
	}
	subject := schemas.ActivitySubject(s.name, k, key)
	if _, err := schemas.ParseActivitySubject(subject); err != nil {
		return nil, err
	}
	a := s.c.activity(how)
	a.TTL = schemas.Duration(ttl)
	l := &Lease{c: s.c, subject: subject, by: a.By, forget: func() bool { return true }}
	if err := s.c.open(l, word{subject: subject, data: encode(a), ttl: ttl, held: true}); err != nil {
		return nil, err
	}
	l.forget = context.AfterFunc(ctx, l.release)
	return l, nil
}

// Close ends the lease. A second call does nothing. Where the same client has
// opened another with the same key, the session stays in use until that ends, too.
func (l *Lease) Close() error {
	l.forget()
	l.release()
	return nil
}

func (l *Lease) release() { l.end.Do(func() { l.c.release(l) }) }

func (c *Client) open(l *Lease, w word) error {
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.leases[l.subject]++
	}
	c.mu.Unlock()
	if closed {
		return ErrClosed
	}
	c.put(w)
	return nil
}

func (c *Client) release(l *Lease) {
	c.mu.Lock()
	last := c.leases[l.subject] == 1
	switch {
	case last:
		delete(c.leases, l.subject)
	case c.leases[l.subject] > 1:
		c.leases[l.subject]--
	}
	c.mu.Unlock()
	if last {
		c.put(released(l.subject, l.by))
	}
}

// released is the word that ends a lease.
func released(subject, by string) word {
	return word{subject: subject, data: encode(schemas.Activity{Released: true, By: by}), ttl: shortest}
}

// endLeases releases all that are open; c.mu is held.
func (c *Client) endLeases() {
	now := time.Now()
	for subject := range c.leases {
		c.box.put(released(subject, c.by), now)
	}
	clear(c.leases)
}
