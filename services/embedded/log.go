package embedded

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// bridge carries the server's log to ours and keeps its first fatal error: the
// server reports that it can't listen in no other way.
type bridge struct {
	to *slog.Logger

	broken chan error    // the first error that the streams don't recover from; one place
	lost   chan struct{} // a token when the server has dropped messages for a stream; one place
	often  seldom

	mu    sync.Mutex
	fatal error
}

func (b *bridge) Noticef(format string, v ...any) { b.to.Debug(fmt.Sprintf(format, v...)) }
func (b *bridge) Warnf(format string, v ...any) {
	if strings.HasPrefix(format, "Plaintext passwords detected") {
		return // of the user that strangers become: random, and kept nowhere
	}
	text := fmt.Sprintf(format, v...)
	if strings.HasPrefix(text, dropping) {
		b.drop()
	}
	if again, ok := b.often.may(format, time.Now()); ok {
		b.to.Warn(text + again)
	}
}

// drop tells that messages were dropped.
func (b *bridge) drop() {
	select {
	case b.lost <- struct{}{}:
	default: // one tells of all
	}
}

// dropping is what the server says, once a second, of messages that it drops since a stream is behind.
// They have no number: no reader of the stream can notice.
const dropping = "Dropping messages due to excessive stream ingest rate"

func (b *bridge) Debugf(string, ...any) {}
func (b *bridge) Tracef(string, ...any) {}

// Errorf also looks for the one error after which a stream refuses every write
// until the server is started again; the server reports it here alone.
func (b *bridge) Errorf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	if again, ok := b.often.may(format, time.Now()); ok {
		b.to.Error(text + again)
	}
	if strings.Contains(text, "failed to store a msg") && strings.Contains(text, unix.ENOSPC.Error()) {
		select {
		case b.broken <- fmt.Errorf("%w: %s", ErrFull, text):
		default: // the first says it all
		}
	}
}

func (b *bridge) Fatalf(format string, v ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fatal == nil {
		b.fatal = fmt.Errorf(format, v...)
	}
}

func (b *bridge) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fatal
}

// sayEvery is how often a complaint of one kind is logged.
const sayEvery = time.Minute

// maxKinds is how many kinds of complaints are remembered.
const maxKinds = 256

// seldom bounds how often complaints of one kind are logged: many of them are what clients
// have the server say.
type seldom struct {
	mu    sync.Mutex
	kinds map[string]*complaint
}

type complaint struct {
	said    time.Time
	swallow int // how often it was not logged since
}

// may reports whether a complaint is to be logged now, and what to say of those before.
func (s *seldom) may(format string, now time.Time) (again string, ok bool) {
	// The server puts the client before the rest.
	kind := format[strings.LastIndex(format, " - ")+1:]
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.kinds[kind]
	switch {
	case c == nil:
		if s.kinds == nil || len(s.kinds) >= maxKinds {
			s.kinds = map[string]*complaint{}
		}
		s.kinds[kind] = &complaint{said: now}
		return "", true
	case now.Sub(c.said) < sayEvery:
		c.swallow++
		return "", false
	}
	if c.swallow > 0 {
		again = fmt.Sprintf(" (and %d times like it before)", c.swallow)
	}
	c.said, c.swallow = now, 0
	return again, true
}
