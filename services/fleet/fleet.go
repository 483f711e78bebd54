package fleet

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"filippo.io/age"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/events/hostkv"
	"github.com/diapause/diapause/events/lease"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
)

// Options is what a fleet is made of. All fields are needed but Identities and Log.
type Options struct {
	JS      jetstream.JetStream
	Names   stream.Names
	Records *statekv.Store
	Leases  *lease.Store
	Images  objectstore.Store
	// Trusted gives the keys that images of a tenant may be signed with.
	Trusted func(tenant, signer string) []ed25519.PublicKey
	// Identities open images, to look at all of one before it is adopted.
	Identities []age.Identity
	// Orders, if given, say which hosts are cordoned.
	Orders *hostkv.Cache
	// Slots, if given, says how many sessions a host has room for that announced own, and what says so
	// if it isn't the host.
	Slots func(own int) (slots int, by string)
	Actor string // in the transitions that it makes: "fleet@host"
	Log   *slog.Logger
}

// Fleet watches the hosts; Serve runs it.
type Fleet struct {
	Options
	observer *lease.Observer
	publish  stream.Publisher
	pause    time.Duration // before what failed for a reason that may pass is tried again
	// header reads that of an image; a test has it fail.
	header func(context.Context, schemas.SessionRecord, schemas.Head) (schemas.ImageHeader, error)

	mu      sync.Mutex
	records map[schemas.Name]statekv.Versioned // for which something is to be done if their host is lost, or under way
	known   bool                               // the watch has caught up
	ready   chan struct{}                      // closed then
	tried   map[schemas.UID]attempt            // of Serve alone
	failed  []failed                           // to be tried elsewhere
	placing map[schemas.UID]attempt            // resumes without a host
	news    chan struct{}                      // there is one
	refused map[schemas.Name]bool              // sessions that no host can resume, as was noted; under mu
}

// attempt is one that came to nothing.
type attempt struct {
	rev statekv.Revision
	at  time.Time
}

// New makes a fleet.
func New(o Options) *Fleet {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	f := &Fleet{Options: o, publish: stream.Publisher{JS: o.JS}, records: map[schemas.Name]statekv.Versioned{}, tried: map[schemas.UID]attempt{}, placing: map[schemas.UID]attempt{}, refused: map[schemas.Name]bool{}, ready: make(chan struct{}), news: make(chan struct{}, 1)}
	f.pause, f.header = again, f.inspect
	f.observer = &lease.Observer{Store: o.Leases, Log: o.Log, Every: look, Looked: f.looked}
	return f
}

// look is how often the leases are read.
const look = 500 * time.Millisecond

// Serve watches hosts and records until ctx ends.
func (f *Fleet) Serve(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return f.observer.Serve(ctx) })
	g.Go(func() error { return f.tryElsewhere(ctx) })
	g.Go(func() error {
		return f.Records.Skim(ctx, f.hear, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			if !f.known {
				f.known = true
				close(f.ready)
			}
		})
	})
	return g.Wait()
}

// hear takes in a revision of a record. Of a million sessions most sleep: of those nothing is
// kept, and no more than a glance taken.
func (f *Fleet) hear(seen statekv.Seen) error {
	n := seen.Record.Name()
	f.mu.Lock()
	before, known := f.records[n]
	if hasRefused(seen.Record) {
		f.refused[n] = true
	} else {
		delete(f.refused, n)
	}
	f.mu.Unlock()
	matters := seen.Record.Op != nil || mayRun[seen.Record.State]
	if !matters && !known {
		return nil
	}
	v, err := seen.Whole()
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notice(before, v)
	if matters {
		f.records[n] = v
		if v.Op != nil && v.Op.Unplaced && f.known {
			f.tell()
		}
	} else {
		delete(f.records, n)
	}
	return nil
}

// mayRun are the states in which Plan may find something to do.
var mayRun = map[schemas.State]bool{schemas.Starting: true, schemas.Running: true, schemas.Suspending: true, schemas.Resuming: true}

// Gone says since when a host is known to be gone.
func (f *Fleet) Gone(h schemas.HostID) (since time.Time, gone bool) { return f.observer.Gone(h) }

// Hosts lists all that have announced themselves.
func (f *Fleet) Hosts(ctx context.Context) ([]Host, error) {
	kv, err := f.JS.KeyValue(ctx, f.Names.Hosts())
	if err != nil {
		return nil, fmt.Errorf("find bucket %s: %w", f.Names.Hosts(), err)
	}
	keys, err := kv.Keys(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrNoKeysFound) {
		return nil, fmt.Errorf("list the hosts: %w", err)
	}
	var out []Host
	for _, key := range keys {
		e, err := kv.Get(ctx, key)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			continue // it was removed just now
		}
		if err != nil {
			return nil, fmt.Errorf("read host %s: %w", key, err)
		}
		var h Host
		if err := json.Unmarshal(e.Value(), &h.Host); err != nil {
			return nil, fmt.Errorf("read host %s: %w", key, err)
		}
		_, h.Gone = f.Gone(h.Host.Host)
		h.Cordoned = f.Orders.Order(h.Host.Host).Cordoned
		if f.Options.Slots != nil {
			h.Slots, h.SlotsBy = f.Options.Slots(h.Slots)
		}
		out = append(out, h)
	}
	return out, nil
}

// Place chooses a host. For a session with a placement it waits until all records have been read:
// what it asks for depends on where others run.
func (f *Fleet) Place(ctx context.Context, w Want) (schemas.HostID, schemas.Fingerprint, error) {
	return f.PlaceAmong(ctx, nil, w)
}

// PlaceAmong is Place among hosts that were listed a moment ago, which it leaves as they are; nil has them listed.
func (f *Fleet) PlaceAmong(ctx context.Context, among []Host, w Want) (schemas.HostID, schemas.Fingerprint, error) {
	if w.Placement != nil && f.Records != nil {
		select {
		case <-f.ready:
		case <-ctx.Done():
			return "", schemas.Fingerprint{}, ctx.Err()
		}
	}
	hosts := slices.Clone(among)
	if among == nil {
		var err error
		if hosts, err = f.Hosts(ctx); err != nil {
			return "", schemas.Fingerprint{}, err
		}
	}
	occupy(hosts, f.Busy, w)
	return Choose(hosts, w)
}

// Stays reports whether a session goes on on its own host, if that is there: no other is looked
// for then.
func (f *Fleet) Stays(r schemas.SessionRecord) bool {
	return r.Placement == nil && !f.Orders.Order(r.Host).Cordoned
}

// Busy gives the records of sessions that run, or have an op under way, as far as they were read.
func (f *Fleet) Busy(yield func(statekv.Versioned) bool) {
	f.mu.Lock()
	all := slices.Collect(maps.Values(f.records))
	f.mu.Unlock()
	for _, v := range all {
		if !yield(v) {
			return
		}
	}
}
