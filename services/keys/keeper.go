package keys

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"filippo.io/age"
	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
)

// Options is what a keeper is made of. All fields are needed but Log and Every.
type Options struct {
	*Ring
	Records    *statekv.Store
	Images     objectstore.Store
	Identities []age.Identity // that open lineage keys, or how sessions are to be started; may be none
	Host       schemas.HostID
	Log        *slog.Logger
	Every      time.Duration // between two looks at everything; an hour if zero
}

// Keeper changes who reads and writes images, and keeps the images' keys wrapped
// to the readers.
type Keeper struct {
	Options
	ours []string // recipients of Identities
}

// NewKeeper makes a keeper; Serve runs it.
func NewKeeper(o Options) *Keeper {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Every == 0 {
		o.Every = time.Hour
	}
	return &Keeper{Options: o, ours: RecipientsOf(o.Identities)}
}

// RecipientsOf gives the public halves of identities, as text.
func RecipientsOf(identities []age.Identity) (out []string) {
	for _, id := range identities {
		switch id := id.(type) {
		case *age.X25519Identity:
			out = append(out, id.Recipient().String())
		case *age.HybridIdentity:
			out = append(out, id.Recipient().String())
		}
	}
	return out
}

// Serve looks after all keys when it starts, when a record has changed and now
// and then, until ctx ends: what a crash has cut off, or what a capture wrote for
// readers who changed meanwhile, doesn't stay behind for longer.
func (k *Keeper) Serve(ctx context.Context) error {
	pause := soon
	for {
		r, err := k.Pass(ctx, "")
		if ctx.Err() != nil {
			return nil
		}
		wait := k.Every
		if err != nil || r.Busy+r.Locked > 0 {
			wait, pause = pause, min(2*pause, k.Every)
		} else {
			pause = soon
		}
		k.report(r, err, wait > soon)
		select {
		case <-ctx.Done():
			return nil
		case <-k.Ring.changed:
		case <-time.After(wait):
		}
	}
}

// soon is how long a pass that couldn't do everything waits for the next, the first
// time.
const soon = 10 * time.Second

// report logs a pass. Keys that are locked are for another host to see to, which
// takes a moment: it is worth a warning if they still are the next time.
func (k *Keeper) report(r Report, err error, again bool) {
	if err != nil {
		k.Log.Warn("keys are not all looked after; trying again later", "err", err)
	}
	if r.Locked > 0 && again {
		k.Log.Warn("lineage keys are not wrapped to their readers: no identity here opens them", "keys", r.Locked)
	}
	if r.Stored > 0 {
		k.Log.Info("lineage keys wrapped", "wraps", r.Stored, "lineages", r.Lineages)
	}
}

// Report is what a pass found and did.
type Report struct {
	Lineages int
	Keys     int // lineage keys of these
	Behind   int // of them, keys that weren't wrapped to exactly their readers
	Locked   int // of them, keys that had to stay so
	Stored   int // wraps
	Deleted  int // wraps to earlier readers
	Resealed int // sessions whose command and environment were sealed again
	Unsealed int // sessions of which that would be needed, and couldn't be done
	Busy     int // sessions of which it is needed, and that something was being done with
}

// Pass wraps the lineage keys of a tenant, of all if it is empty, to their
// readers, and seals the specs of sessions again. A failure at one session doesn't
// stop the others.
func (k *Keeper) Pass(ctx context.Context, t schemas.Tenant) (Report, error) {
	return k.each(ctx, t, func(v statekv.Versioned, set Set) (out Report, err error) {
		if p, ok := lineageOf(v); ok {
			err = k.lineage(ctx, p, set, &out)
		}
		return out, errors.Join(err, k.reseal(ctx, v, set, &out))
	})
}

// look tells what a pass would find of lineage keys, from the names of the objects
// alone.
func (k *Keeper) look(ctx context.Context, t schemas.Tenant) (Report, error) {
	return k.each(ctx, t, func(v statekv.Versioned, set Set) (Report, error) {
		p, ok := lineageOf(v)
		readers, err := set.Images()
		if err != nil || !ok {
			return Report{}, err
		}
		got, err := image.Wraps(ctx, k.Images, p.tenant, p.lineage, readers)
		return Report{Lineages: min(got.Keys, 1), Keys: got.Keys, Behind: got.Behind}, err
	})
}

// each does something with every session of a tenant, of all if it is empty, and
// adds up what came of it.
func (k *Keeper) each(ctx context.Context, t schemas.Tenant, do func(statekv.Versioned, Set) (Report, error)) (Report, error) {
	sessions, err := k.sessions(ctx, t)
	if err != nil {
		return Report{}, err
	}
	sets := map[schemas.Tenant]Set{}
	for _, v := range sessions {
		if _, ok := sets[v.Tenant]; ok {
			continue
		}
		if sets[v.Tenant], err = k.Ring.Refresh(ctx, v.Tenant); err != nil {
			return Report{}, err
		}
	}
	var mu sync.Mutex
	var out Report
	var errs []error
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, v := range sessions {
		g.Go(func() error {
			r, err := do(v, sets[v.Tenant])
			mu.Lock()
			defer mu.Unlock()
			out.add(r)
			errs = append(errs, err)
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs, all of them
	return out, errors.Join(errs...)
}

// atOnce is how many sessions a pass looks after at a time: a store that is far
// away answers slowly.
const atOnce = 8

func (r *Report) add(o Report) {
	r.Lineages += o.Lineages
	r.Keys += o.Keys
	r.Behind += o.Behind
	r.Locked += o.Locked
	r.Stored += o.Stored
	r.Deleted += o.Deleted
	r.Resealed += o.Resealed
	r.Unsealed += o.Unsealed
	r.Busy += o.Busy
}

// place is where a lineage is, and of which session.
type place struct {
	tenant  schemas.Tenant
	lineage string
	owner   statekv.Versioned
}

// lineageOf gives the lineage that a session has, or that others still go on from:
// a session that is deleted has its own for as long as its images wait for a fork.
func lineageOf(v statekv.Versioned) (place, bool) {
	return place{v.Tenant, v.Lineage, v}, v.Lineage != "" && (v.State != schemas.Deleted || v.Transition.Type == schemas.TDeferred)
}

// sessions reads the last revision of a tenant's records.
func (k *Keeper) sessions(ctx context.Context, t schemas.Tenant) (all []statekv.Versioned, err error) {
	watch, stop := context.WithCancel(ctx)
	defer stop()
	complete := false
	err = k.Records.Watch(watch, func(v statekv.Versioned) {
		if t == "" || v.Tenant == t {
			all = append(all, v)
		}
	}, func() {
		complete = true
		stop()
	})
	if err == nil && !complete {
		err = fmt.Errorf("read the sessions whose keys to look after: %w", ctx.Err())
	}
	return all, err
}

func (k *Keeper) lineage(ctx context.Context, p place, set Set, out *Report) error {
	readers, err := set.Images()
	if err != nil {
		return err
	}
	got, err := image.Rewrap(ctx, k.Images, p.tenant, p.lineage, k.Identities, readers)
	out.Keys += got.Keys
	out.Behind += got.Behind
	out.Locked += len(got.Locked)
	out.Stored += got.Stored
	out.Deleted += got.Deleted
	if got.Keys > 0 {
		out.Lineages++
	}
	if err != nil || got.Stored == 0 {
		return err
	}
	return k.notRevived(ctx, p)
}

// shredding is how long a pass waits for the end of a removal that it may have
// come between.
const shredding = time.Minute

// notRevived takes the wraps back that were stored while their session was
// removed: its keys may have been deleted just before, for good.
func (k *Keeper) notRevived(ctx context.Context, p place) error {
	ctx, cancel := context.WithTimeout(ctx, shredding)
	defer cancel()
	for {
		v, err := k.Records.Get(ctx, p.owner.Name())
		if err != nil {
			return err
		}
		gone := v.UID != p.owner.UID || v.State == schemas.Deleted && v.Op == nil
		switch {
		case gone:
			return image.DeleteKeys(ctx, k.Images, p.tenant, p.lineage)
		case v.State != schemas.Deleted, v.Transition.Type == schemas.TDeferred:
			return nil
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("session %s is being removed: %w", p.owner.Name(), ctx.Err())
		}
	}
}

// Lineage wraps the keys of one session's lineage, after a capture that may have
// started with other readers.
func (k *Keeper) Lineage(ctx context.Context, v statekv.Versioned) error {
	set, err := k.Ring.Refresh(ctx, v.Tenant)
	if err != nil {
		return err
	}
	return k.lineage(ctx, place{v.Tenant, v.Lineage, v}, set, &Report{})
}
