package hostkv

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// again is the pause before orders that couldn't be followed are tried again, loadWait how long
// Load waits for them.
const (
	again    = 5 * time.Second
	loadWait = 3 * time.Second
)

// Cache follows the orders. It is safe for concurrent use. What it couldn't read is no order.
type Cache struct {
	js    jetstream.JetStream
	names stream.Names
	log   *slog.Logger

	mu      sync.Mutex
	orders  map[schemas.HostID]Versioned
	changed chan struct{}
}

// NewCache makes a cache that knows nothing yet.
func NewCache(js jetstream.JetStream, names stream.Names, log *slog.Logger) *Cache {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Cache{js: js, names: names, log: log, orders: map[schemas.HostID]Versioned{}, changed: make(chan struct{})}
}

// Load reads all orders. If that can't be done soon, it logs why: a configuration of NATS by an
// older version has no rights to the bucket, and without orders all else works.
func (c *Cache) Load(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, loadWait)
	defer stop()
	loaded := false
	err := c.watch(ctx, func() { loaded = true; stop() })
	if !loaded {
		c.log.Warn("the orders of operators about hosts can't be read: hosts count as not cordoned; run `diapause nats-config` again if an older version wrote the configuration of NATS", "err", err)
	}
}

// Serve follows the bucket until ctx ends. While it can't, what was known last holds.
func (c *Cache) Serve(ctx context.Context) error {
	for {
		err := c.watch(ctx, func() {})
		if ctx.Err() != nil {
			return nil
		}
		c.log.Debug("the orders of operators about hosts can't be followed; trying again", "err", err)
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return nil
		}
	}
}

func (c *Cache) watch(ctx context.Context, caughtUp func()) error {
	s, err := Open(ctx, c.js, c.names)
	if err != nil {
		return err
	}
	return s.Watch(ctx, c.take, caughtUp)
}

func (c *Cache) take(v Versioned) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.orders[v.Host].Seq >= v.Seq {
		return
	}
	c.orders[v.Host] = v
	close(c.changed)
	c.changed = make(chan struct{})
}

// Changed is closed at the next change.
func (c *Cache) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// Order gives what is ordered about a host; the zero order if nothing is. A nil cache knows none.
func (c *Cache) Order(h schemas.HostID) schemas.HostOrder {
	if c == nil {
		return schemas.HostOrder{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.orders[h].HostOrder
}

// All gives the orders that there are.
func (c *Cache) All() (all []schemas.HostOrder) {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range c.orders {
		all = append(all, v.HostOrder)
	}
	return all
}

// Update is Store.Update; the cache knows what it wrote.
func (c *Cache) Update(ctx context.Context, h schemas.HostID, change func(o *schemas.HostOrder) (ok bool, err error)) (schemas.HostOrder, error) {
	s, err := Open(ctx, c.js, c.names)
	if err != nil {
		return schemas.HostOrder{}, err
	}
	v, err := s.Update(ctx, h, change)
	if err == nil && v.Seq > 0 {
		c.take(v)
	}
	return v.HostOrder, err
}
