// Package turns decides which of a host's operations that take much memory go on, and which
// wait for their turn.
//
// Next decides alone; Queue keeps who waits and who goes on, and wakes who may. An operation
// takes its turn before it touches a session, so what waits can be given up at any time.
// No operation waits for another while it has a turn: there is no deadlock.
package turns

import (
	"fmt"

	"github.com/diapause/diapause/schemas"
)

// Class is how urgent an operation is: the lowest goes first.
type Class int

// The classes.
const (
	Wake  Class = iota // a session is restored: its user waits
	Asked              // a capture on request, or one that makes room
	Idle               // a capture of what is idle: it can wait
)

// Request is an operation that waits, or goes on.
type Request struct {
	Class Class
	Bytes int64 // what it takes of memory, about
}

// Limits bound the operations that go on at a time. What is 0 isn't bounded.
type Limits struct {
	Count int
	Bytes int64
}

// Next gives the place in waiting, which is in the order of arrival, of the operation that
// goes on next beside those of going, or -1 if none may.
//
// The most urgent goes first, and of those the one that came first: a small one doesn't
// overtake a large one that doesn't fit, or that would wait for ever. An operation larger than
// the budget goes alone. Captures leave one place to wakes, so that a wake doesn't wait for the
// end of captures if there is memory for it.
func Next(l Limits, going, waiting []Request) int {
	i := first(waiting)
	if i < 0 || l.held(going, waiting[i]) != "" {
		return -1
	}
	return i
}

// first gives the place of the one that goes first, or -1 if none waits.
func first(waiting []Request) int {
	first := -1
	for i, r := range waiting {
		if first < 0 || r.Class < waiting[first].Class {
			first = i
		}
	}
	return first
}

// held gives the limit that keeps an operation from going on beside those of going, as
// ParseLimits reads it, or "" if it may.
func (l Limits) held(going []Request, r Request) string {
	if len(going) == 0 {
		return ""
	}
	count := l.Count
	if r.Class != Wake && count > 1 {
		count--
	}
	if l.Count > 0 && len(going) >= count {
		return fmt.Sprint("count=", l.Count)
	}
	sum := r.Bytes
	for _, r := range going {
		sum += r.Bytes
	}
	if l.Bytes > 0 && sum > l.Bytes {
		return "memory=" + schemas.Bytes(l.Bytes).String()
	}
	return ""
}
