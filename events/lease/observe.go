package lease

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/schemas"
)

// Observer watches the leases of all hosts.
type Observer struct {
	Store *Store
	Every time.Duration // between two looks while a lease isn't renewed in time; 1 s if zero
	Log   *slog.Logger
	// Looked, if given, is called after each look that heard all, in the goroutine of Serve.
	Looked func(context.Context, []Sighting)

	mu    sync.Mutex
	seen  map[schemas.HostID]Sighting
	known map[schemas.HostID]Versioned // by what was heard and read
	fresh map[schemas.HostID]Versioned // heard since the last reading began
	hears bool                         // renewals are heard as they come
	gap   bool                         // some may not have been, since the last reading
	read  Clock                        // when the leases were last read
	rest  time.Duration                // the next look is due after that, unless there is news
	news  chan struct{}                // there is some
}

// Sighting is what the observer's last look says of one host.
type Sighting struct {
	Versioned
	Seen
	Verdict Verdict
}

// readEvery is how often the leases are read though all of them are renewed.
const readEvery = 10 * time.Second

// Serve looks at the leases until ctx ends.
func (o *Observer) Serve(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	o.news = make(chan struct{}, 1)
	wg.Go(func() { o.listen(ctx) })
	for {
		if all, err := o.look(ctx); err == nil && o.Looked != nil {
			o.Looked(ctx, all)
		} else if err != nil && ctx.Err() == nil {
			o.Log.Warn("the hosts' leases can't be read", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(o.pause()):
		case <-o.news:
		}
	}
}

// pause is how long no look is needed without news: until the next reading, or until a renewal is
// overdue. Unless all leases are live and heard of, it is what was asked for.
func (o *Observer) pause() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := Now()
	o.rest = readEvery - now.Sub(o.read)
	for _, s := range o.seen {
		left := overdue(s.Term()) - now.Sub(s.Since)
		if s.Verdict != Live {
			left = 0
		}
		o.rest = min(o.rest, left)
	}
	if !o.hears || o.gap {
		o.rest = 0
	}
	o.rest = max(o.rest, o.every())
	return o.rest
}

func (o *Observer) tell() {
	select {
	case o.news <- struct{}{}:
	default:
	}
}

func (o *Observer) every() time.Duration {
	if o.Every > 0 {
		return o.Every
	}
	return time.Second
}

// listen hears of renewals. Without it, and while it fails, each look reads.
func (o *Observer) listen(ctx context.Context) {
	for ctx.Err() == nil {
		_ = o.Store.follow(ctx, o.hear, func() { o.hearing(true) }, o.missed)
		o.hearing(false)
		select {
		case <-ctx.Done():
		case <-time.After(o.every()):
		}
	}
}

func (o *Observer) hear(v Versioned) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.known, o.fresh = with(o.known, v), with(o.fresh, v)
	o.tell()
}

func with(m map[schemas.HostID]Versioned, v Versioned) map[schemas.HostID]Versioned {
	if m == nil {
		m = map[schemas.HostID]Versioned{}
	}
	m[v.Host] = v
	return m
}

// hearing notes whether renewals are heard as they come.
func (o *Observer) hearing(all bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.hears = all
}

// missed notes that some may come late.
func (o *Observer) missed() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.gap = true
	o.tell()
}

// mustRead reports whether what was heard doesn't do for a look.
func (o *Observer) mustRead(now Clock) bool {
	if o.Store.writer.JS.Conn().Status() != nats.CONNECTED {
		return true // reading says that nothing can be heard
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.hears || o.gap || now.Sub(o.read) >= readEvery {
		return true
	}
	for h, v := range o.known {
		if s := o.seen[h]; s.Verdict == Live && s.Seen.Rev == v.Rev && now.Sub(s.Since) >= overdue(v.Term()) {
			return true
		}
	}
	return false
}

// readAll reads the leases.
func (o *Observer) readAll(ctx context.Context) error {
	o.mu.Lock()
	o.fresh, o.gap = nil, false
	o.mu.Unlock()
	within, cancel := context.WithTimeout(ctx, 2*o.every())
	defer cancel()
	all, err := o.Store.All(within)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.gap = true
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.known = map[schemas.HostID]Versioned{}
	for _, v := range all {
		o.known[v.Host] = v
	}
	for h, v := range o.fresh { // it may have been read before that
		o.known[h] = v
	}
	o.read = Now()
	return nil
}

func (o *Observer) look(ctx context.Context) ([]Sighting, error) {
	if o.mustRead(Now()) {
		if err := o.readAll(ctx); err != nil {
			return nil, err
		}
	}
	now := Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	next := make(map[schemas.HostID]Sighting, len(o.known))
	out := make([]Sighting, 0, len(o.known))
	for h, v := range o.known {
		s, verdict := Judge(o.seen[h].Seen, v, now, o.rest+5*o.every())
		next[h] = Sighting{v, s, verdict}
		out = append(out, next[h])
	}
	slices.SortFunc(out, func(a, b Sighting) int { return strings.Compare(string(a.Host), string(b.Host)) })
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
