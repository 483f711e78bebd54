package image

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
)

// CollectOptions say how a lineage is cleaned.
type CollectOptions struct {
	Trusted Trusted
	// Wait is how long an object that nothing names stays before it is marked, and
	// then again before it is deleted. It must be longer than the longest capture
	// takes to store its image.
	Wait time.Duration
	// DryRun only tells what would be done.
	DryRun bool
}

// Collected tells what Collect did, or would do.
type Collected struct {
	Marked  []string // to be deleted by a later run
	Deleted []string
	Bytes   int64 // of what was deleted
	Left    int64 // bytes of the lineage that are in the store after that
}

// stored is an object as the store lists it.
type stored struct {
	at   time.Time
	size int64
}

// Collect deletes what no header of a lineage names: the packs and keys of
// captures that never came to their end. Keys of recordings stay. It may run beside captures, and other
// runs, on any host. First an unused object is marked; a capture that has matched
// pages of it finds the mark when it commits, and fails. A later run, after the wait,
// deletes what is marked and still not named. All times are the store's. While a
// header can't be read nothing is deleted.
func Collect(ctx context.Context, store objectstore.Store, tenant schemas.Tenant, lineageID string, o CollectOptions) (Collected, error) {
	l, err := newLineage(tenant, lineageID)
	if err != nil {
		return Collected{}, fmt.Errorf("collect: %w", err)
	}
	out, err := collect(ctx, store, l, o)
	if err != nil {
		return out, fmt.Errorf("collect %s: %w", strings.TrimSuffix(l.prefix(), "/"), err)
	}
	return out, nil
}

func collect(ctx context.Context, store objectstore.Store, l lineage, o CollectOptions) (out Collected, err error) {
	// First what may go, then what is named: an image that is committed in between
	// is seen.
	all := map[string]stored{}
	err = store.List(ctx, l.prefix(), func(i objectstore.Info) error {
		all[i.Name] = stored{i.ModTime, i.Size}
		out.Left += i.Size
		return nil
	})
	if err != nil {
		return out, err
	}
	if !anyToLookAt(l, all) {
		return out, nil
	}
	now, err := storeNow(ctx, store, l)
	if err != nil {
		return out, err
	}
	named, err := namedObjects(ctx, store, l, o.Trusted)
	if err != nil {
		return out, fmt.Errorf("nothing is deleted: %w", err)
	}
	addRecordingKeys(l, all, named)
	p := planCollect(l, all, named, now, o.Wait)
	out.Marked = p.mark
	for _, name := range p.delete {
		out.Deleted, out.Bytes = append(out.Deleted, name), out.Bytes+all[name].size
	}
	if o.DryRun {
		return out, nil
	}
	out.Left -= out.Bytes
	return out, p.carryOut(ctx, store, l)
}

func anyToLookAt(l lineage, all map[string]stored) bool {
	for name := range all {
		if !strings.HasPrefix(name, l.snaps()) {
			return true
		}
	}
	return false
}

// storeNow tells the time by the store's clock.
func storeNow(ctx context.Context, store objectstore.Store, l lineage) (now time.Time, err error) {
	name := l.clock() + rand.Text()
	if err := store.Put(ctx, name, strings.NewReader(""), 0); err != nil {
		return now, fmt.Errorf("ask the store for the time: %w", err)
	}
	err = store.List(ctx, name, func(i objectstore.Info) error {
		now = i.ModTime
		return nil
	})
	if err = errors.Join(err, store.Delete(context.WithoutCancel(ctx), name)); err != nil {
		return now, fmt.Errorf("ask the store for the time: %w", err)
	}
	return now, nil
}

// collection is what is to be done to a lineage.
type collection struct{ mark, unmark, delete []string }

// snapshotMark is how long a mark of a snapshot may stay: the process that set it
// deletes the snapshot at once, or crashed.
const snapshotMark = time.Hour

// planCollect decides. An object that is named is never deleted, and what isn't
// named only after it has been marked for the wait.
func planCollect(l lineage, all map[string]stored, named map[string]bool, now time.Time, wait time.Duration) (p collection) {
	for name, s := range all {
		if strings.HasPrefix(name, l.marks()) {
			object := l.marked(name)
			_, there := all[object]
			stale := strings.HasPrefix(object, l.snaps()) || strings.HasPrefix(name, l.clock())
			if stale && now.Sub(s.at) > snapshotMark || !stale && (!there || isNamed(l, named, object)) {
				p.unmark = append(p.unmark, name)
			}
			continue
		}
		if !l.isPart(name) || isNamed(l, named, name) || now.Sub(s.at) < wait {
			continue
		}
		m, marked := all[l.mark(name)]
		switch {
		case !marked:
			p.mark = append(p.mark, name)
		case now.Sub(m.at) >= wait:
			p.delete = append(p.delete, name)
		}
	}
	return p
}

// isPart reports whether an object is one that headers name: a pack, its ids or a
// key. Others, which are kept beside the images, are left alone.
func (l lineage) isPart(name string) bool {
	return strings.HasPrefix(name, l.packs()) || strings.HasPrefix(name, l.keys())
}

func isNamed(l lineage, named map[string]bool, name string) bool {
	if strings.HasPrefix(name, l.keys()) {
		return named[l.key(l.kidOf(name))]
	}
	return named[name]
}

// carryOut marks first: a run that is cut off has done nothing that the next
// doesn't see.
func (p collection) carryOut(ctx context.Context, store objectstore.Store, l lineage) error {
	for _, name := range p.mark {
		if err := mark(ctx, store, l, name); err != nil {
			return err
		}
	}
	for _, name := range p.unmark {
		if err := store.Delete(ctx, name); err != nil {
			return err
		}
	}
	for _, name := range p.delete {
		if err := store.Delete(ctx, name); err != nil {
			return err
		}
		if err := unmark(ctx, store, l, name); err != nil {
			return err
		}
	}
	return nil
}
