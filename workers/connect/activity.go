package connect

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nuid"

	"github.com/diapause/diapause/schemas"
)

// presenceTTL is how long a connection counts after its last renewal.
const presenceTTL = 15 * time.Second

func (s *Server) input(ctx context.Context, n schemas.Name) {
	if _, err := s.Bus.Activity(ctx, n, schemas.KindInput, "", schemas.Activity{By: "worker@" + string(s.Host)}); err != nil && ctx.Err() == nil {
		s.Log.Warn("could not publish input", "session", n.String(), "err", err)
	}
}

// present keeps a lease alive until the returned function is called.
func (s *Server) present(ctx context.Context, n schemas.Name, forward bool) (leave func()) {
	key, reason := "attach-"+nuid.Next(), "someone is attached"
	if forward {
		key, reason = "forward-"+nuid.Next(), "a forwarded connection is open"
	}
	say := func(ctx context.Context, released bool) {
		a := schemas.Activity{TTL: schemas.Duration(presenceTTL), Released: released, Reason: reason, By: "worker@" + string(s.Host)}
		if _, err := s.Bus.Activity(ctx, n, schemas.KindPresence, key, a); err != nil && ctx.Err() == nil {
			s.Log.Warn("could not publish presence", "session", n.String(), "err", err)
		}
	}
	say(ctx, false)
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for tick := time.NewTicker(presenceTTL / 3); ; {
			select {
			case <-tick.C:
				say(ctx, false)
			case <-ctx.Done():
				tick.Stop()
				return
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
		bye, done := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer done()
		say(bye, true)
	}
}
