package terminal

import (
	"errors"
	"sync"
)

// maxOwed is how much a client may type that the session hasn't taken, in bytes.
const maxOwed = 256 << 10

var (
	errGap   = errors.New("input is missing before this one")
	errAhead = errors.New("too much input that the session hasn't taken")
	errTaken = errors.New("the session counts input that wasn't typed")
	errOther = errors.New("input for a session that is another one by now")
)

// keyboard is what was typed and isn't confirmed. Positions count the bytes that a client has typed, over all its
// sockets.
type keyboard struct {
	mu      sync.Mutex
	taken   int64
	owed    []byte // what follows
	started bool   // taken is known
	changed chan struct{}
}

func newKeyboard(taken int64) *keyboard { return &keyboard{taken: taken, changed: make(chan struct{})} }

// signal is called with mu held.
func (k *keyboard) signal() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// put takes what was typed at a position. What came before counts once.
func (k *keyboard) put(at int64, b []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	next := k.taken + int64(len(k.owed))
	if at > next {
		return errGap
	}
	if at < 0 || next-at >= int64(len(b)) {
		return nil
	}
	b = b[next-at:]
	if len(k.owed)+len(b) > maxOwed {
		return errAhead
	}
	k.owed = append(k.owed, b...)
	k.signal()
	return nil
}

// take says what the session has taken. The first time it may be more than is known here, or less if it is
// another session than the client's last one.
func (k *keyboard) take(taken int64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := taken - k.taken
	switch {
	case k.started && (n < 0 || n > int64(len(k.owed))):
		return errTaken
	case n < 0 && len(k.owed) > 0:
		return misuse{errOther}
	case n < 0:
		n = 0
	}
	k.owed = k.owed[min(n, int64(len(k.owed))):]
	k.taken, k.started = taken, true
	k.signal()
	return nil
}

// from gives up to max bytes that follow a position, and what is closed when there may be more. gone says that
// they were taken over another connection.
func (k *keyboard) from(at int64, max int) (b []byte, gone bool, changed <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at < k.taken {
		return nil, true, nil
	}
	rest := k.owed[at-k.taken:]
	return append([]byte(nil), rest[:min(max, len(rest))]...), false, k.changed
}

// state gives what was taken, and whether there is more.
func (k *keyboard) state() (taken int64, owes bool, changed <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.taken, len(k.owed) > 0, k.changed
}
