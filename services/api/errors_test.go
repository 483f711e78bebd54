package api

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/events/cas"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// A wait that runs out has code timeout in each place where it is cut off.
func TestTimeLimitsHaveACode(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"while it waited":                        fmt.Errorf("ensure: %w", context.DeadlineExceeded),
		"in a write whose answer was lost":       fmt.Errorf("ensure: %w: %w", statekv.ErrUnknown, fmt.Errorf("%w: %w", cas.ErrUnknown, nats.ErrTimeout)),
		"in a write that is refused for now":     fmt.Errorf("ensure: %w: %w", cas.ErrUnknown, errors.New("wrong last sequence")),
		"in a write that had no responder":       fmt.Errorf("%w: %w", statekv.ErrUnknown, nats.ErrNoResponders),
		"in a write that met the end of its own": fmt.Errorf("%w: %w", cas.ErrUnknown, context.DeadlineExceeded),
	} {
		if e := coded(err); e.Code != schemas.CodeTimeout || e.Hint == "" {
			t.Errorf("%s: %+v", name, e)
		}
	}
	if e := coded(fmt.Errorf("%w: %w", cas.ErrUnknown, context.Canceled)); e.Reason != schemas.ReasonStopping {
		t.Errorf("a server that stops: %+v", e)
	}
}
