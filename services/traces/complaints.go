package traces

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// complaints take what the SDK has to say. What is wrong with the variables is logged once each, as they are read. Of
// what goes wrong with exporting one error is logged, then none for quiet.
type complaints struct {
	log *slog.Logger

	mu    sync.Mutex
	heard map[string]bool // of the variables
	began bool            // the variables were read
	said  time.Time
}

const quiet = time.Hour

func (c *complaints) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.began = true
}

// Handle implements otel.ErrorHandler.
func (c *complaints) Handle(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.began {
		if text := err.Error(); !c.heard[text] {
			c.heard[text] = true
			c.log.Warn("a variable of OpenTelemetry isn't understood", "err", text)
		}
		return
	}
	if now := time.Now(); c.said.IsZero() || now.Sub(c.said) > quiet {
		c.said = now
		c.log.Warn("traces aren't exported; sessions aren't affected, and this isn't said again for an hour", "err", err)
	}
}

var _ logr.LogSink = (*complaints)(nil)

// Error implements logr.LogSink. The values beside the error are left out, and so is the URL of one: what is in a
// variable may be a password.
func (c *complaints) Error(err error, text string, _ ...any) {
	if bad := new(url.Error); errors.As(err, &bad) {
		err = bad.Err
	}
	c.Handle(fmt.Errorf("%s: %w", text, err))
}

// Enabled implements logr.LogSink.
func (c *complaints) Enabled(int) bool { return false }

// Init implements logr.LogSink.
func (c *complaints) Init(logr.RuntimeInfo) {}

// Info implements logr.LogSink.
func (c *complaints) Info(int, string, ...any) {}

// WithValues implements logr.LogSink.
func (c *complaints) WithValues(...any) logr.LogSink { return c }

// WithName implements logr.LogSink.
func (c *complaints) WithName(string) logr.LogSink { return c }
