package shim

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/driver"
)

// typist is a client that types into the main command over one connection after the
// other, and how much of its input was taken.
type typist struct {
	ID    string `json:"id"`
	Taken int64  `json:"taken"` // bytes, since it began

	conn net.Conn // its last connection; nil when that has ended, and after a restore
}

// typists are those of a session. They go into its image: the input that an image
// holds and the count of it belong together.
type typists struct {
	mu     sync.Mutex
	all    []*typist // the one that came or went last at the end
	forgot bool      // some are not among them any more
}

// typistsKept is how many typists are remembered, and how many may be connected. One
// that stays away while so many others come is forgotten, and may not go on where it
// was: that position isn't known any more.
const typistsKept = 256

var (
	errSuperseded = errors.New("this terminal has another connection by now")
	errForgotten  = &driver.Error{
		Kind: driver.Refused, Text: "how much of this terminal's input was taken isn't known any more",
		Hint: "too many other terminals attached meanwhile: attach again, and look how much of the input is there",
	}
	errCrowded = &driver.Error{
		Kind: driver.Refused, Text: fmt.Sprintf("%d terminals are attached, the most that may be", typistsKept),
		Hint: "detach one, or follow the output with `diapause logs -f`",
	}
)

// come makes c the one connection of a typist, which no longer has its input before
// from. again says that it was connected before.
func (t *typists) come(id string, from int64, again bool, c net.Conn) (taken int64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.drop(id)
	switch {
	case p != nil:
	case again && t.forgot:
		return 0, errForgotten
	case !t.room():
		return 0, errCrowded
	default:
		p = &typist{ID: id}
	}
	p.conn, p.Taken = c, max(p.Taken, from)
	t.all = append(t.all, p)
	return p.Taken, nil
}

// drop takes a typist out of the list; nil if it isn't there. Callers hold mu.
func (t *typists) drop(id string) *typist {
	i := slices.IndexFunc(t.all, func(p *typist) bool { return p.ID == id })
	if i < 0 {
		return nil
	}
	p := t.all[i]
	t.all = slices.Delete(t.all, i, i+1)
	return p
}

// room reports whether there is room for another typist. If there are too many it
// forgets the one that disconnected first. Callers hold mu.
func (t *typists) room() bool {
	if len(t.all) < typistsKept {
		return true
	}
	i := slices.IndexFunc(t.all, func(p *typist) bool { return p.conn == nil })
	if i < 0 {
		return false
	}
	t.all, t.forgot = slices.Delete(t.all, i, i+1), true
	return true
}

// leave says that a connection has ended.
func (t *typists) leave(id string, c net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.all, func(p *typist) bool { return p.ID == id })
	if i < 0 || t.all[i].conn != c {
		return // it came again
	}
	p := t.drop(id)
	p.conn = nil
	t.all = append(t.all, p)
}

// take writes what it can of b, if c still is its typist's connection, and counts it in
// the same step.
func (t *typists) take(id string, c net.Conn, fd int, b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.all, func(p *typist) bool { return p.ID == id })
	if i < 0 || t.all[i].conn != c {
		return 0, errSuperseded
	}
	n, err := unix.Write(fd, b)
	t.all[i].Taken += int64(max(n, 0))
	return n, err
}

func (t *typists) taken(id string) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.all {
		if p.ID == id {
			return p.Taken
		}
	}
	return 0
}

// save and load carry them through an image.
func (t *typists) save() (all []typist, forgot bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.all {
		all = append(all, typist{ID: p.ID, Taken: p.Taken})
	}
	return all, t.forgot
}

func (t *typists) load(all []typist, forgot bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all, t.forgot = nil, forgot
	for _, p := range all {
		t.all = append(t.all, &typist{ID: p.ID, Taken: p.Taken})
	}
}
