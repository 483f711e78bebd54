package search

import (
	"container/list"
	"sync"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/recordings"
	"github.com/diapause/diapause/workers/search/index"
)

// entry is what is known of one session. What it has is for who holds mu.
type entry struct {
	uid      schemas.UID
	mu       sync.Mutex
	gone     bool // it is in no cache any more
	version  uint64
	source   *recordings.Source
	x        *index.Index // nil until it is looked at
	empty    bool         // nothing was recorded as of version
	kept     int64        // x.Read when it was stored last
	redacted uint64       // the generation of what was redacted of the recording that x is of
	// unlisted: there may be commands that aren't known.
	unlisted bool
}

// close frees the index.
func (e *entry) close() {
	if e.x != nil {
		e.x.Close()
	}
	e.x, e.empty, e.kept, e.redacted = nil, false, 0, 0
}

// cache has entries, and closes those that were used the longest time ago when they take too much.
type cache struct {
	most int64

	mu      sync.Mutex
	all     map[schemas.UID]*list.Element // of *entry
	order   *list.List                    // the one used last is first
	sizes   map[schemas.UID]int64
	sum     int64
	touched map[schemas.UID]bool // more was recorded since they were looked at
	// doomed are those that go as soon as they aren't used.
	doomed map[schemas.UID]bool
}

func newCache(most int64) *cache {
	return &cache{most: most, all: map[schemas.UID]*list.Element{}, order: list.New(), sizes: map[schemas.UID]int64{}, doomed: map[schemas.UID]bool{}, touched: map[schemas.UID]bool{}}
}

// lock gives the entry of a session, locked.
func (c *cache) lock(uid schemas.UID) *entry {
	for {
		c.mu.Lock()
		el := c.all[uid]
		if el == nil {
			el = c.order.PushFront(&entry{uid: uid})
			c.all[uid] = el
		}
		c.order.MoveToFront(el)
		c.mu.Unlock()
		e := el.Value.(*entry)
		e.mu.Lock()
		if !e.gone {
			return e
		}
		e.mu.Unlock()
	}
}

// entrySize is what an entry takes without an index, in bytes.
const entrySize = 1 << 10

// unlock gives it back, and makes room.
func (c *cache) unlock(e *entry) {
	size := int64(entrySize)
	if e.x != nil {
		size += e.x.Size()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if el := c.all[e.uid]; el != nil {
		c.sum += size - c.sizes[e.uid]
		c.sizes[e.uid] = size
		if c.doomed[e.uid] {
			c.remove(el, e)
		}
	}
	e.mu.Unlock()
	for el := c.order.Back(); el != nil && c.sum > c.most; {
		before := el.Prev()
		if old := el.Value.(*entry); old.mu.TryLock() { // else it is used
			c.remove(el, old)
			old.mu.Unlock()
		}
		el = before
	}
}

// remove takes out an entry, which is locked.
func (c *cache) remove(el *list.Element, e *entry) {
	e.close()
	e.gone = true
	c.order.Remove(el)
	delete(c.all, e.uid)
	c.sum -= c.sizes[e.uid]
	delete(c.sizes, e.uid)
	delete(c.doomed, e.uid)
	delete(c.touched, e.uid)
}

// touch says that more was recorded of a session.
func (c *cache) touch(uid schemas.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all[uid] != nil {
		c.touched[uid] = true
	}
}

// wasTouched reports whether more was recorded of a session since it was asked last.
func (c *cache) wasTouched(uid schemas.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.touched[uid]
	delete(c.touched, uid)
	return was
}

// forget takes out the entry of a session, if there is one: at once, or when it isn't used any more.
func (c *cache) forget(uid schemas.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	el := c.all[uid]
	if el == nil {
		return
	}
	e := el.Value.(*entry)
	if !e.mu.TryLock() {
		c.doomed[uid] = true
		return
	}
	c.remove(el, e)
	e.mu.Unlock()
}
