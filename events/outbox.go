package events

import (
	"container/heap"
	"time"
)

// The times that the outbox keeps to.
const (
	// every is the least time between two messages of one session and kind.
	every = time.Second
	// stale is when what couldn't be said is no news any more.
	stale = time.Hour
	// soon is after which a new lease is said once more: what a server drops that can't keep up it
	// drops without a word.
	soon = 2 * time.Second
)

// remembered bounds the sessions and kinds that wait for a connection, leases that
// are held aside: those are as many as the service has opened.
const remembered = 10_000

// word is one thing to say: a message, and what it means for when it goes.
type word struct {
	subject string
	about   string // tells words on one subject apart that don't replace each other
	data    []byte
	ttl     time.Duration // of a lease; 0 else
	held    bool          // a lease that is to be renewed until another word says otherwise
	weak    bool          // doesn't count: never in place of one that does
}

// key is what words replace each other under.
func (w word) key() string { return w.subject + " " + w.about }

// entry is the last word of one key.
type entry struct {
	word
	said    word // what was sent last
	at      time.Time
	sent    time.Time // zero if nothing was
	pending bool      // word is to be sent
	fresh   bool      // it was sent once, and is a lease
	due     time.Time
	place   int // in the queue
}

// outbox decides what is sent when. It does no I/O and reads no clock; its owner
// takes what is due, sends it, and says whether that went well.
type outbox struct {
	entries map[string]*entry // by key
	queue   queue
	free    int // entries that aren't held leases
	limit   int
	dropped uint64 // words that were never said
}

func newOutbox() *outbox {
	return &outbox{entries: map[string]*entry{}, limit: remembered}
}

// put takes in a word in place of the one before on its subject.
func (o *outbox) put(w word, now time.Time) {
	e, ok := o.entries[w.key()]
	switch {
	case !ok:
		if !w.held {
			o.makeRoom()
		}
		e = &entry{}
		o.entries[w.key()] = e
		o.free++
	case w.weak && e.pending && !e.weak:
		return
	}
	if e.held != w.held {
		o.free += map[bool]int{true: -1, false: 1}[w.held]
	}
	e.word, e.at = w, now
	e.pending = !w.held || !e.said.held
	e.due = dueOf(e, now)
	o.place(e)
}

// dueOf says when an entry is looked at next: when its word may go, when its lease
// is to be renewed, or when it may be forgotten.
func dueOf(e *entry, now time.Time) time.Time {
	switch {
	case e.pending && (e.held || e.sent.IsZero()):
		return now
	case e.held && e.fresh:
		return e.sent.Add(min(soon, e.ttl/3))
	case e.held:
		return e.sent.Add(e.ttl / 3)
	}
	return e.sent.Add(every)
}

// take gives what is to be sent now, as sent, and when to come back; zero if there
// is nothing to come back for.
func (o *outbox) take(now time.Time) (batch []word, next time.Time) {
	for len(o.queue) > 0 && !o.queue[0].due.After(now) {
		e := o.queue[0]
		switch {
		case e.pending && !e.held && now.Sub(e.at) > stale:
			o.dropped++
			o.forget(e)
		case !e.pending && !e.held:
			o.forget(e)
		default:
			batch = append(batch, e.word)
			e.fresh, e.pending, e.sent, e.said = e.pending, false, now, e.word
			e.due = dueOf(e, now)
			o.place(e)
		}
	}
	if len(o.queue) > 0 {
		next = o.queue[0].due
	}
	return batch, next
}

// soonest is when something is due next; zero if nothing is.
func (o *outbox) soonest() time.Time {
	if len(o.queue) == 0 {
		return time.Time{}
	}
	return o.queue[0].due
}

// lost puts back what may not have arrived, where nothing newer was said since.
func (o *outbox) lost(batch []word, now time.Time) {
	for _, w := range batch {
		e, ok := o.entries[w.key()]
		if !ok {
			o.put(w, now)
			continue
		}
		e.said, e.pending = word{}, true
		e.due = now
		o.place(e)
	}
}

// hurry has everything go at the next take: there is no later.
func (o *outbox) hurry(now time.Time) {
	for _, e := range o.entries {
		if e.pending {
			e.due = now
			o.place(e)
		}
	}
}

// waiting is how many words haven't been sent.
func (o *outbox) waiting() (n int) {
	for _, e := range o.entries {
		if e.pending {
			n++
		}
	}
	return n
}

// makeRoom drops the word that is due first, where there are too many.
func (o *outbox) makeRoom() {
	if o.free < o.limit {
		return
	}
	for _, e := range o.queue {
		if !e.held {
			if e.pending {
				o.dropped++
			}
			o.forget(e)
			return
		}
	}
}

func (o *outbox) forget(e *entry) {
	heap.Remove(&o.queue, e.place)
	delete(o.entries, e.key())
	if !e.held {
		o.free--
	}
}

func (o *outbox) place(e *entry) {
	if e.place < len(o.queue) && o.queue[e.place] == e {
		heap.Fix(&o.queue, e.place)
		return
	}
	heap.Push(&o.queue, e)
}

// queue is a heap of entries, the one that is due first in front.
type queue []*entry

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}
func (q *queue) Push(x any) {
	e := x.(*entry)
	e.place = len(*q)
	*q = append(*q, e)
}
func (q *queue) Pop() any {
	old := *q
	e := old[len(old)-1]
	*q = old[:len(old)-1]
	e.place = len(old)
	return e
}
