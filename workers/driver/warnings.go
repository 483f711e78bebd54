package driver

import (
	"context"

	"github.com/diapause/diapause/schemas"
)

type warningsKey struct{}

// WithWarnings has what a driver's Restore hands to begin say what comes back different.
func WithWarnings(ctx context.Context, all []schemas.Warning) context.Context {
	return context.WithValue(ctx, warningsKey{}, all)
}

// WarningsOf gives what a driver said so.
func WarningsOf(ctx context.Context) []schemas.Warning {
	all, _ := ctx.Value(warningsKey{}).([]schemas.Warning)
	return all
}
