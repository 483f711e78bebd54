package embedded

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// bridge carries the server's log to ours and keeps its first fatal error: the
// server reports that it can't listen in no other way.
type bridge struct {
	to *slog.Logger

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
func (b *bridge) Errorf(format string, v ...any) { b.to.Error(fmt.Sprintf(format, v...)) }
func (b *bridge) Debugf(string, ...any)          {}
func (b *bridge) Tracef(string, ...any)          {}

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
