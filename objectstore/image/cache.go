package image

import (
	"container/list"
	"errors"
	"sync"
)

// cache keeps what was last used, up to a number of bytes, and lets each key be
// made by one goroutine while the others wait. Who claims, owns or peeks at a slot holds
// it until release: the buffer of what has left the cache and has no holder is used again.
type cache[K comparable] struct {
	limit   int64
	buffers *buffers                 // what the data is in
	evicted func(key K, data []byte) // if set, is given what leaves the cache

	mu     sync.Mutex
	closed bool
	size   int64
	slots  map[K]*slot[K]
	used   list.List // of finished slots, last used first
}

// slot is one value, which may still be in the making.
type slot[K comparable] struct {
	key  K
	done chan struct{} // closed once data and err are set
	data []byte
	err  error
	elem *list.Element

	holders int
	left    bool // it has left the cache
	lent    bool // a pipe may go on referring to it
}

func newCache[K comparable](limit int64, b *buffers) *cache[K] {
	return &cache[K]{limit: limit, buffers: b, slots: map[K]*slot[K]{}}
}

// claim returns the slot of a key. If mine is true, the caller must finish it. The
// caller must release it in either case.
func (c *cache[K]) claim(key K) (s *slot[K], mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.slots[key]; ok {
		if s.elem != nil {
			c.used.MoveToFront(s.elem)
		}
		s.holders++
		return s, false
	}
	s = &slot[K]{key: key, done: make(chan struct{}), holders: 1}
	c.slots[key] = s
	return s, true
}

// own is claim for a caller that needs the value, with settle.
func (c *cache[K]) own(key K) (s *slot[K], mine bool, err error) {
	s, mine = c.claim(key)
	return c.settle(s, mine)
}

// settle goes on after claim for a caller that needs the value: it waits for another goroutine
// that makes it, and claims the slot again if the store failed that goroutine. If mine is true,
// the caller must finish it. It has nothing to release after an error.
func (c *cache[K]) settle(s *slot[K], mine bool) (*slot[K], bool, error) {
	for !mine {
		_, err := s.wait()
		if err == nil {
			return s, false, nil
		}
		c.release(s)
		if !errors.Is(err, errStore) {
			return nil, false, err
		}
		s, mine = c.claim(s.key)
	}
	return s, true, nil
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
	if c.closed {
		delete(c.slots, s.key)
		s.left = true
		return
	}
	s.elem = c.used.PushFront(s)
	c.size += int64(len(data))
	for c.size > c.limit && c.used.Len() > 1 {
		old := c.used.Back().Value.(*slot[K])
		if c.evicted != nil {
			c.evicted(old.key, old.data)
		}
		c.remove(old)
	}
}

// remove takes a finished slot out of the cache. Callers hold mu.
func (c *cache[K]) remove(s *slot[K]) {
	c.used.Remove(s.elem)
	delete(c.slots, s.key)
	c.size -= int64(len(s.data))
	s.left = true
	c.recycle(s)
}

// recycle gives the buffer of what has left the cache and has no holder back. Callers hold mu.
func (c *cache[K]) recycle(s *slot[K]) {
	if !s.left || s.holders > 0 {
		return
	}
	if s.lent {
		c.buffers.discard(s.data)
	} else {
		c.buffers.put(s.data)
	}
	s.data = nil
}

// release says that the caller doesn't use the slot's data any more. It does nothing on nil.
func (c *cache[K]) release(s *slot[K]) {
	if s == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.holders--
	c.recycle(s)
}

// drop forgets a finished slot.
func (c *cache[K]) drop(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.slots[key]; s != nil && s.elem != nil {
		c.remove(s)
	}
}

// discard is release for data that a pipe may go on referring to: its buffer isn't used again.
func (c *cache[K]) discard(s *slot[K]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.lent = true
	s.holders--
	c.recycle(s)
}

// close forgets what is in the cache, and keeps nothing from now on.
func (c *cache[K]) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for c.used.Len() > 0 {
		c.remove(c.used.Back().Value.(*slot[K]))
	}
}

// peek returns the slot of a key that is there, or in the making; nil if neither.
func (c *cache[K]) peek(key K) *slot[K] {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.slots[key]
	if s != nil {
		s.holders++
	}
	return s
}

// wait returns the value, which may be used until the slot is released. The caller must not
// change it.
func (s *slot[K]) wait() ([]byte, error) {
	<-s.done
	return s.data, s.err
}
