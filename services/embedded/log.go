package embedded

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// bridge carries the server's log to ours and keeps its first fatal error: the
// server reports that it can't listen in no other way.
type bridge struct {
	to *slog.Logger

	broken chan error // the first error that the streams don't recover from; one place

	mu    sync.Mutex
	fatal error
}

func (b *bridge) Noticef(format string, v ...any) { b.to.Debug(fmt.Sprintf(format, v...)) }
func (b *bridge) Warnf(format string, v ...any) {
	if strings.HasPrefix(format, "Plaintext passwords detected") {
		return // of the user that strangers become: random, and kept nowhere
	}
	b.to.Warn(fmt.Sprintf(format, v...))
}
func (b *bridge) Debugf(string, ...any) {}
func (b *bridge) Tracef(string, ...any) {}

// Errorf also looks for the one error after which a stream refuses every write
// until the server is started again; the server reports it here alone.
func (b *bridge) Errorf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	b.to.Error(text)
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
