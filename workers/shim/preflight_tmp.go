package shim

import (
	"context"

	"github.com/diapause/diapause/workers/driver"
)

type preflightOptions struct {
	Init       int
	External   func(string) bool
	GhostLimit int64
}

func preflightCheck(context.Context, []int, preflightOptions) ([]driver.Blocker, []string, error) {
	return nil, nil, nil
}
