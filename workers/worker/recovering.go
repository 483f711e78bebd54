package worker

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/stream"
)

// Recovering reports whether the fleet recovers its records just now. Until that is over
// nobody decides anything.
func Recovering(ctx context.Context, js jetstream.JetStream, names stream.Names) (bool, error) {
	w := &Worker{Options: Options{JS: js, Names: names}}
	kv, err := w.fleetBucket(ctx)
	if err != nil {
		return false, err
	}
	g, err := w.generationNow(ctx, kv)
	return !g.Over, err
}
