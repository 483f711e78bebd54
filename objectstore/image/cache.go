package image

import (
	"container/list"
	"errors"
	"sync"
)

// cache keeps what was last used, up to a number of bytes, and lets each key be
// made by one goroutine while the others wait.
type cache[K comparable] struct {
	limit   int64
	evicted func(key K, data []byte) // if set, is given what leaves the cache

	mu    sync.Mutex
	size  int64
	slots map[K]*slot[K]
	used  list.List // of finished slots, last used first
}

// slot is one value, which may still be in the making.
type slot[K comparable] struct {
	key  K
	done chan struct{} // closed once data and err are set
	data []byte
	err  error
	elem *list.Element
}

func newCache[K comparable](limit int64) *cache[K] {
	return &cache[K]{limit: limit, slots: map[K]*slot[K]{}}
}

// claim returns the slot of a key. If mine is true, the caller must finish it.
func (c *cache[K]) claim(key K) (s *slot[K], mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.slots[key]; ok {
		if s.elem != nil {
			c.used.MoveToFront(s.elem)
		}
		return s, false
	}
	s = &slot[K]{key: key, done: make(chan struct{})}
	c.slots[key] = s
	return s, true
}

// own is claim for a caller that needs the value: it waits for another goroutine that
// makes it, and claims the slot again if the store failed that goroutine.
func (c *cache[K]) own(key K) (s *slot[K], data []byte, err error) {
	for {
		s, mine := c.claim(key)
		if mine {
			return s, nil, nil
		}
		if data, err = s.wait(); !errors.Is(err, errStore) {
			return nil, data, err
		}
	}
}

// finish sets a slot's value. An error is told to those who wait and then
// forgotten, so that the next one tries again.
func (c *cache[K]) finish(s *slot[K], data []byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.data, s.err = data, err
	close(s.done)
	if err != nil {
		delete(c.slots, s.key)
		return
	}
	s.elem = c.used.PushFront(s)
	c.size += int64(len(data))
	for c.size > c.limit && c.used.Len() > 1 {
		old := c.used.Remove(c.used.Back()).(*slot[K])
		delete(c.slots, old.key)
		c.size -= int64(len(old.data))
		if c.evicted != nil {
			c.evicted(old.key, old.data)
		}
	}
}

// drop forgets a finished slot.
func (c *cache[K]) drop(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.slots[key]; s != nil && s.elem != nil {
		c.used.Remove(s.elem)
		delete(c.slots, key)
		c.size -= int64(len(s.data))
	}
}

// peek returns the slot of a key that is there, or in the making.
func (c *cache[K]) peek(key K) (s *slot[K], ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok = c.slots[key]
	return s, ok
}

// wait returns the value. The caller must not change it.
func (s *slot[K]) wait() ([]byte, error) {
	<-s.done
	return s.data, s.err
}
