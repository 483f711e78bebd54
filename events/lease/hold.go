package lease

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/diapause/diapause/events/cas"
	"github.com/diapause/diapause/schemas"
)

// DefaultTerm is how long a lease holds after a renewal, unless configured.
const DefaultTerm = 30 * time.Second

// Holder holds the lease of one host.
type Holder struct {
	Store *Store
	Host  schemas.HostID
	Term  time.Duration // DefaultTerm if zero
	Log   *slog.Logger
	// Place says where the host is: two places that have one id don't take the lease from each other. Without it the
	// later one does.
	Place string
	// Renewed, if given, is called after each renewal, in the goroutine of Serve: the
	// next one waits for it.
	Renewed func(Renewal)

	mu    sync.Mutex
	last  Renewal
	held  Versioned // of Serve and Take alone, as is other
	other rival

	renewals, misses atomic.Uint64
	rev              atomic.Uint64 // of the last renewal
}

// Renewals counts those that are known to be stored, and those that were tried and
// aren't.
func (h *Holder) Renewals() (stored, missed uint64) { return h.renewals.Load(), h.misses.Load() }

// WentBack reports whether the bucket of leases, as its leader has it, ends before the last
// renewal that was stored: then none is taken any more. A leader that was deposed says so for
// a moment, too.
func (h *Holder) WentBack(ctx context.Context) (bool, error) {
	held := h.rev.Load()
	end, err := h.Store.end(ctx)
	return err == nil && end < held, err
}

// Last gives the last renewal; the zero one before the first.
func (h *Holder) Last() Renewal {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

func (h *Holder) term() time.Duration {
	if h.Term > 0 {
		return h.Term
	}
	return DefaultTerm
}

// Take takes the lease, also from another holder: of two processes of one place that call
// themselves the same host the later one wins, and data directories are locked. What another place
// holds and renews is ErrElsewhere. It returns when the lease is held, or with ctx.
func (h *Holder) Take(ctx context.Context) error { return h.until(ctx, h.take) }

// Await waits until no other place has the lease, and takes nothing: before the host's sessions are looked for.
// One that is renewed is ErrElsewhere.
func (h *Holder) Await(ctx context.Context) error {
	if h.Place == "" {
		return nil
	}
	return h.until(ctx, func(ctx context.Context) (bool, error) {
		_, free, err := h.look(ctx)
		return free, err
	})
}

// until tries something until it is done, another place is known to have the lease, or ctx ends.
func (h *Holder) until(ctx context.Context, try func(context.Context) (bool, error)) error {
	for {
		done, err := try(ctx)
		wait := renewEvery(h.term())
		switch {
		case done:
			return nil
		case errors.Is(err, ErrElsewhere):
			return err
		case err != nil:
			h.Log.Warn("the host's lease can't be taken; trying again", "host", h.Host, "err", err)
			wait = min(time.Second, wait)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// take takes the lease, unless another place has it that may live.
func (h *Holder) take(ctx context.Context) (took bool, err error) {
	found, free, err := h.look(ctx)
	if err != nil || !free {
		return false, err
	}
	err = h.write(ctx, found, taken(found, h.Host, h.by(), h.term()), Now())
	return err == nil, err
}

// look reads the lease, and says whether it may be taken.
func (h *Holder) look(ctx context.Context) (found Versioned, free bool, err error) {
	if found, err = h.Store.Get(ctx, h.Host); err != nil {
		return found, false, err
	}
	if h.other, free, err = contest(h.other, found, h.by()); err != nil {
		return found, false, schemas.WithHint(err, "each host has its own id and data directory: stop one of the two, or give it another --data and --host-id")
	}
	if !free {
		h.Log.Warn("the host's lease is held in another place; waiting whether it is renewed", "host", h.Host, "by", found.By)
	}
	return found, free, nil
}

func (h *Holder) by() string { return holderBy(h.Host, h.Place) }

// Serve renews the lease until ctx ends, or another place has it; Take came before.
func (h *Holder) Serve(ctx context.Context) error {
	for tick := time.NewTicker(renewEvery(h.term())); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return nil
		case <-tick.C:
		}
		err := h.renew(ctx)
		if errors.Is(err, ErrElsewhere) {
			tick.Stop()
			return err
		}
		if err != nil && ctx.Err() == nil {
			h.misses.Add(1)
			h.Log.Warn("the host's lease is not renewed", "host", h.Host, "err", err)
		}
	}
}

// renew writes the next renewal. What was refused is looked into: a write of our own
// whose answer was lost is gone on from, a lease that was ended is taken again.
func (h *Holder) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, renewEvery(h.term()))
	defer cancel()
	err := h.write(ctx, h.held, renewed(h.held.HostLease), Now())
	if !errors.Is(err, cas.ErrConflict) {
		return err
	}
	found, err := h.Store.Get(ctx, h.Host)
	if err != nil {
		return err
	}
	if ours(found, h.held) {
		return h.write(ctx, found, renewed(found.HostLease), Now())
	}
	h.Log.Warn("the host's lease was ended by others; taking a new one", "host", h.Host, "by", found.By)
	_, err = h.take(ctx)
	return err
}

func (h *Holder) write(ctx context.Context, prev Versioned, next schemas.HostLease, sent Clock) error {
	now, err := h.Store.swap(ctx, prev, next)
	if err != nil {
		return err
	}
	r := Renewal{Incarnation: now.Incarnation, Until: sent.Add(FenceAfter(h.term())), Within: h.term() / 4}
	h.held = now
	h.rev.Store(now.Rev)
	h.renewals.Add(1)
	h.mu.Lock()
	h.last = r
	h.mu.Unlock()
	if h.Renewed != nil {
		h.Renewed(r)
	}
	return nil
}
