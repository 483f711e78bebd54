package image

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/objectstore"
)

// checksAtOnce is how many packs CheckPacks reads beside each other.
const checksAtOnce = 2

// CheckPacks reads every pack that the image needs and compares it with its digest in
// the header, decrypting and keeping nothing: who hands contents on while it reads them knows
// beforehand that all of it is there. Reading verifies again. The error is
// ErrCorrupt, or what the store says.
func (r *Reader) CheckPacks(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(checksAtOnce)
	for _, p := range r.packs {
		g.Go(func() error { return r.checkPack(ctx, p) })
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("check image %s: %w", r.head.Name, err)
	}
	return nil
}

func (r *Reader) checkPack(ctx context.Context, p *packReader) error {
	done := r.times.fetch.begin()
	defer done()
	_, intact, err := comparePack(ctx, r.store, p.name, p.ref)
	switch {
	case errors.Is(err, objectstore.ErrNotFound):
		return fmt.Errorf("%w: %s is missing", ErrCorrupt, p.name)
	case err != nil:
		return err
	case !intact:
		return fmt.Errorf("%w: %s is not what was written", ErrCorrupt, p.name)
	}
	return nil
}
