package lease

import (
	"context"

	"github.com/diapause/diapause/schemas"
)

// Write is what a holder does, for tests that stand in for one.
func (s *Store) Write(ctx context.Context, prev Versioned, next schemas.HostLease) (Versioned, error) {
	return s.swap(ctx, prev, next)
}
