package lease

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/diapause/diapause/schemas"
)

// Observer watches the leases of all hosts.
type Observer struct {
	Store *Store
	Every time.Duration // between two looks; 1 s if zero
	Log   *slog.Logger
	// Looked, if given, is called after each look that heard all, in the goroutine of Serve.
	Looked func(context.Context, []Sighting)

	mu   sync.Mutex
	seen map[schemas.HostID]Sighting
}

// Sighting is what the observer's last look says of one host.
type Sighting struct {
	Versioned
	Seen
	Verdict Verdict
}

// Serve looks at the leases until ctx ends.
func (o *Observer) Serve(ctx context.Context) error {
	for tick := time.NewTicker(o.every()); ; {
		if all, err := o.look(ctx); err == nil && o.Looked != nil {
			o.Looked(ctx, all)
		} else if err != nil && ctx.Err() == nil {
			o.Log.Warn("the hosts' leases can't be read", "err", err)
		}
		select {
		case <-ctx.Done():
			tick.Stop()
			return nil
		case <-tick.C:
		}
	}
}

func (o *Observer) every() time.Duration {
	if o.Every > 0 {
		return o.Every
	}
	return time.Second
}

func (o *Observer) look(ctx context.Context) ([]Sighting, error) {
	within, cancel := context.WithTimeout(ctx, 2*o.every())
	defer cancel()
	all, err := o.Store.All(within)
	if err != nil {
		return nil, err
	}
	now := Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	next := make(map[schemas.HostID]Sighting, len(all))
	out := make([]Sighting, 0, len(all))
	for _, v := range all {
		s, verdict := Judge(o.seen[v.Host].Seen, v, now, 5*o.every())
		next[v.Host] = Sighting{v, s, verdict}
		out = append(out, next[v.Host])
	}
	o.seen = next
	return out, nil
}

// Host gives the last look at one host; ok is false for one that has no lease, or
// was not looked at yet.
func (o *Observer) Host(h schemas.HostID) (s Sighting, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s, ok = o.seen[h]
	return s, ok
}

// Gone says since when a host is known to be gone. One without a lease counts as
// there: it is older than leases are.
func (o *Observer) Gone(h schemas.HostID) (since time.Time, gone bool) {
	s, ok := o.Host(h)
	if !ok || s.Verdict == Live {
		return time.Time{}, false
	}
	return s.At, true
}

func (s Sighting) String() string {
	return fmt.Sprintf("host %s, lease %s", s.HostLease.Host, s.Verdict)
}
