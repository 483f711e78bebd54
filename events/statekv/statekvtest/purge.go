package statekvtest

import (
	"context"
	"fmt"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// made is when every Fake says that its log was made.
var made = time.Unix(0, 0).UTC()

// Extent says which entries the log has.
func (f *Fake) Extent(context.Context) (statekv.Extent, error) {
	all, _ := f.from(0)
	out := statekv.Extent{Created: made, Last: uint64(len(all)), Now: time.Now()}
	for _, e := range all {
		if e.data == nil {
			continue
		}
		if out.Entries++; out.Entries == 1 {
			out.Oldest = e.stored
		}
		out.Newest = e.stored
	}
	return out, nil
}

// Counts says how many revisions the log has of each session.
func (f *Fake) Counts(context.Context) (map[schemas.Name]uint64, error) {
	all, _ := f.from(0)
	out := map[schemas.Name]uint64{}
	for _, e := range all {
		if e.data != nil {
			out[e.name]++
		}
	}
	return out, nil
}

// Entries calls fn with a session's entries after a revision, until fn needs no more.
func (f *Fake) Entries(_ context.Context, n schemas.Name, after statekv.Revision, fn func(statekv.Entry) (more bool, err error)) error {
	all, _ := f.from(0)
	for at := int(after.Seq()); at < len(all); at++ {
		if all[at].name != n || all[at].data == nil {
			continue
		}
		if more, err := fn(rawEntry(all[at], at)); err != nil || !more {
			return err
		}
	}
	return nil
}

// EntryAt gives the entry of a sequence.
func (f *Fake) EntryAt(_ context.Context, seq uint64) (e statekv.Entry, ok bool, err error) {
	all, _ := f.from(0)
	if seq == 0 || seq > uint64(len(all)) || all[seq-1].data == nil {
		return e, false, nil
	}
	return rawEntry(all[seq-1], int(seq)-1), true, nil
}

func rawEntry(e entry, at int) statekv.Entry {
	return statekv.Entry{Subject: "$KV.fake." + e.name.Key(), Seq: uint64(at) + 1, Time: e.stored, Value: e.data}
}

// Purge drops the revisions of one session up to and with one, as statekv.Store does.
func (f *Fake) Purge(_ context.Context, n schemas.Name, through statekv.Revision, removed bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	last, ok := f.last[n]
	if !ok {
		return nil
	}
	if v := decode(f.log[last], last); v.Rev.Seq() <= through.Seq() {
		if !removed || v.State != schemas.Deleted || v.Op != nil {
			return fmt.Errorf("purge session %s up to entry %d: %w", n, through.Seq(), statekv.ErrNewest)
		}
		delete(f.last, n)
	}
	for at := range f.log[:min(int(through.Seq()), len(f.log))] {
		if f.log[at].name == n {
			f.log[at].data = nil
		}
	}
	return nil
}

// LogOf is Log for the sessions of one tenant; of all if it is empty.
func (f *Fake) LogOf(ctx context.Context, t schemas.Tenant, fn func(statekv.Versioned) error) error {
	return f.Log(ctx, func(v statekv.Versioned) error {
		if t != "" && v.Tenant != t {
			return nil
		}
		return fn(v)
	})
}
