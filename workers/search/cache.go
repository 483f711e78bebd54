package search

import (
	"container/list"
	"sync"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/objectstore/recording"
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
	record   *schemas.SessionRecord // of version
	source   *recordings.Source
	x        *index.Index   // nil until it is looked at, and while there is no room for it
	summary  *index.Summary // of the index as of version; nil if more may come
	covers   recording.Ref  // the last segment that summary is of
	empty    bool           // nothing was recorded as of version
	kept     int64          // x.Read when it was stored last
	redacted uint64         // the generation of what was redacted of the recording that x is of
	// unlisted: there may be commands that aren't known.
	unlisted bool
}

// close forgets the index.
func (e *entry) close() {
	e.shut()
	e.summary, e.empty, e.redacted = nil, false, 0
}

// shut frees the index. What summary says of it stays.
func (e *entry) shut() {
	if e.x != nil {
		e.x.Close()
	}
	e.x, e.kept = nil, 0
}

// size is what the entry takes, about, in bytes.
func (e *entry) size() (n int64) {
	n = entrySize
	if e.x != nil {
		n += e.x.Size()
	}
	if e.summary != nil {
		n += e.summary.Size()
	}
	return n
}

// entrySize is what an entry takes with nothing but a record, in bytes.
const entrySize = 4 << 10

// known is what a search needs of a session of which no more is recorded, without its entry.
type known struct {
	record  *schemas.SessionRecord
	summary *index.Summary // nil if nothing was recorded
}

// cache has entries. When they take too much, it frees the indexes that were used the longest time ago, and then the entries.
type cache struct {
	most int64

	mu      sync.Mutex
	all     map[schemas.UID]*list.Element // of *entry
	order   *list.List                    // the one used last is first
	open    map[schemas.UID]*list.Element // of those with an index
	opened  *list.List                    // of *entry, as order
	known   map[schemas.UID]known
	sizes   map[schemas.UID]int64
	sum     int64
	touched map[schemas.UID]bool // more was recorded since they were looked at
	// doomed are those that go as soon as they aren't used.
	doomed map[schemas.UID]bool
}

func newCache(most int64) *cache {
	return &cache{
		most: most, all: map[schemas.UID]*list.Element{}, order: list.New(), open: map[schemas.UID]*list.Element{}, opened: list.New(),
		known: map[schemas.UID]known{}, sizes: map[schemas.UID]int64{}, doomed: map[schemas.UID]bool{}, touched: map[schemas.UID]bool{},
	}
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

// unlock gives it back, and makes room.
func (c *cache) unlock(e *entry) {
	size := e.size()
	c.mu.Lock()
	defer c.mu.Unlock()
	if el := c.all[e.uid]; el != nil {
		c.resize(e.uid, size)
		c.note(e)
		if c.doomed[e.uid] {
			c.remove(el, e)
		}
	}
	e.mu.Unlock()
	c.makeRoom(c.opened, func(_ *list.Element, old *entry) {
		if old.summary == nil { // without its index nothing is left to know
			c.remove(c.all[old.uid], old)
			return
		}
		c.shut(old)
	})
	c.makeRoom(c.order, c.remove)
}

// shut frees the index of an entry, which is locked and has a summary. Callers hold mu.
func (c *cache) shut(e *entry) {
	e.shut()
	c.resize(e.uid, e.size())
	c.note(e)
}

// rest frees the index of a session that is summed up, unless it is being used.
func (c *cache) rest(uid schemas.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	el := c.open[uid]
	if el == nil {
		return
	}
	if e := el.Value.(*entry); e.mu.TryLock() {
		if e.summary != nil {
			c.shut(e)
		}
		e.mu.Unlock()
	}
}

// has reports whether there is an entry of a session.
func (c *cache) has(uid schemas.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all[uid] != nil
}

// takes is what all entries take, about, in bytes.
func (c *cache) takes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sum
}

// note has what the cache knows of an entry, which is locked, agree with it. Callers hold mu.
func (c *cache) note(e *entry) {
	switch el := c.open[e.uid]; {
	case e.x == nil && el != nil:
		c.opened.Remove(el)
		delete(c.open, e.uid)
	case e.x != nil && el != nil:
		c.opened.MoveToFront(el)
	case e.x != nil:
		c.open[e.uid] = c.opened.PushFront(e)
	}
	if delete(c.known, e.uid); e.record != nil && !live(*e.record) && (e.summary != nil || e.empty) {
		c.known[e.uid] = known{e.record, e.summary}
	}
}

// makeRoom calls free with entries of a list that aren't used, the one used last at the end, while all take too much. Callers hold mu.
func (c *cache) makeRoom(of *list.List, free func(*list.Element, *entry)) {
	for el := of.Back(); el != nil && c.sum > c.most; {
		before := el.Prev()
		if old := el.Value.(*entry); old.mu.TryLock() { // else it is used
			free(el, old)
			old.mu.Unlock()
		}
		el = before
	}
}

func (c *cache) resize(uid schemas.UID, size int64) {
	c.sum += size - c.sizes[uid]
	c.sizes[uid] = size
}

// remove takes out an entry, which is locked, by its element of order. Callers hold mu.
func (c *cache) remove(el *list.Element, e *entry) {
	e.close()
	e.gone, e.record = true, nil
	c.note(e)
	c.order.Remove(el)
	delete(c.all, e.uid)
	c.sum -= c.sizes[e.uid]
	delete(c.sizes, e.uid)
	delete(c.doomed, e.uid)
	delete(c.touched, e.uid)
}

// knows gives what is known of a session as a client has listed it. Nothing was recorded of it since.
func (c *cache) knows(of attach.Searched) (known, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.known[of.UID]
	if !ok || c.touched[of.UID] || k.record.Version != of.Version || k.record.Name().String() != of.Name {
		return known{}, false
	}
	return k, true
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
	if was {
		delete(c.known, uid)
	}
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
		delete(c.known, uid)
		return
	}
	c.remove(el, e)
	e.mu.Unlock()
}
