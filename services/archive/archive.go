package archive

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/segment"
	"github.com/diapause/diapause/schemas"
)

// Log is the log of sessions in NATS, as an archive needs it: statekv.Store says what each
// method promises.
type Log interface {
	Extent(ctx context.Context) (statekv.Extent, error)
	All(ctx context.Context) ([]statekv.Versioned, error)
	Counts(ctx context.Context) (map[schemas.Name]uint64, error)
	Entries(ctx context.Context, n schemas.Name, after statekv.Revision, fn func(statekv.Entry) (more bool, err error)) error
	EntryAt(ctx context.Context, seq uint64) (e statekv.Entry, ok bool, err error)
	Purge(ctx context.Context, n schemas.Name, through statekv.Revision, removed bool) error
}

// Options is what an archive is made of.
type Options struct {
	Log    Log
	Heads  Heads
	Store  objectstore.Store
	Key    *age.X25519Identity // of the log: segments are encrypted to it alone
	Signer ed25519.PrivateKey
	Host   string // whose key that is
	// Known gives all keys that segments may have been signed with, revoked ones too: a segment
	// that the head names is what it was. Trusted leaves out those that are revoked.
	Known, Trusted segment.Trusted
	Policy         Policy
	// Forget reports whether the newest revision of a removed session may go: not while a host
	// may not know yet that the session is removed. It may be nil: then it may.
	Forget func(ctx context.Context) (bool, error)
	// Moving, if given, is called for each session before a segment with revisions of it counts. Its
	// error leaves them where they are.
	Moving func(ctx context.Context, newest statekv.Versioned) error
	// Least is how many bytes of values are due before a segment is written, unless the last one is
	// a day old.
	Least int
	// Most is how many bytes of values go into one segment, MostSegments how many segments one
	// pass writes. Pause is the least between the purges of two sessions, which is as long as the
	// first of them took: others write to the log meanwhile.
	// 16 MiB, 64 and 1 ms if zero.
	Most         int
	MostSegments int
	Pause        time.Duration
	Notes        *slog.Logger
}

// Archive moves revisions to the store. It is safe for concurrent use.
type Archive struct {
	Options
	one   sync.Mutex // pass at a time
	clock clock
	steps func(step string) error // for tests: what goes wrong where
}

// New makes an archive.
func New(o Options) *Archive {
	if o.Most == 0 {
		o.Most = 16 << 20
	}
	if o.MostSegments == 0 {
		o.MostSegments = 64
	}
	if o.Pause == 0 {
		o.Pause = time.Millisecond
	}
	if o.Notes == nil {
		o.Notes = slog.New(slog.DiscardHandler)
	}
	return &Archive{Options: o, steps: func(string) error { return nil }}
}

// clock tells the time of the log. A server's clock that jumps ahead makes nothing due: after
// the first look it goes on by no more than the time that passed in this process.
type clock struct {
	log   time.Time
	local time.Time // with a monotonic reading
}

func (c *clock) now(log time.Time) time.Time {
	if c.local.IsZero() {
		c.log, c.local = log, time.Now()
		return log
	}
	if most := c.log.Add(time.Since(c.local) + time.Minute); log.After(most) {
		return most
	}
	c.log, c.local = log, time.Now()
	return log
}

// Pass is what one pass came to.
type Pass struct {
	Segments  int   // written
	Bytes     int64 // of them in the store
	Revisions int   // moved, or that would be
	Sessions  int   // forgotten: removed ones, of which nothing is left in NATS
	Head      Head
	Extent    statekv.Extent
	Problems  []string
}

// Pass moves what is due. With dryRun it only counts that. An error leaves everything readable,
// and the next pass goes on from there.
func (a *Archive) Pass(ctx context.Context, dryRun bool) (out Pass, err error) {
	a.one.Lock()
	defer a.one.Unlock()
	if out.Extent, err = a.Log.Extent(ctx); err != nil {
		return out, err
	}
	now := a.clock.now(out.Extent.Now)
	at, err := a.settle(ctx, now, out.Extent, dryRun, &out)
	out.Head = at.Head
	if err != nil || at.blocked {
		return out, err
	}
	forget := true
	if a.Forget != nil {
		if forget, err = a.Forget(ctx); err != nil {
			return out, fmt.Errorf("move old revisions: %w", err)
		}
	}
	todo, err := a.candidates(ctx, now, forget)
	if err != nil {
		return out, err
	}
	for len(todo) > 0 && out.Segments < a.MostSegments {
		var batch batch
		if batch, todo, err = a.collect(ctx, todo, now, forget); err != nil || len(batch.revisions) == 0 {
			return out, err
		}
		if batch.bytes < a.Least && out.Segments == 0 && at.End.Number > 0 && now.Sub(at.At) < day && !dryRun {
			return out, nil // many small segments take long to read
		}
		out.Revisions += len(batch.revisions)
		if dryRun {
			continue
		}
		err = a.move(ctx, &at, batch, now, out.Extent.Created, &out)
		out.Head = at.Head
		if errors.Is(err, ErrMoved) {
			return out, nil // the other archive does it
		}
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// place is the head as it was read last.
type place struct {
	Head
	rev     uint64
	blocked bool // nothing can be moved here; a problem says why
}

// session is what a pass knows of one session.
type session struct {
	newest statekv.Versioned
	count  int
}

// candidates are the sessions of which something may be due.
func (a *Archive) candidates(ctx context.Context, now time.Time, forget bool) (todo []session, err error) {
	counts, err := a.Log.Counts(ctx)
	if err != nil {
		return nil, err
	}
	all, err := a.Log.All(ctx)
	if err != nil {
		return nil, err
	}
	for _, v := range all {
		s := session{v, int(counts[v.Name()])}
		if a.Policy.MayBeDue(v, s.count, now, forget) {
			todo = append(todo, s)
		}
	}
	return todo, nil
}

// batch is what goes into one segment.
type batch struct {
	revisions []segment.Revision
	bytes     int
	purges    []purge
}

// purge is what is purged of one session.
type purge struct {
	newest  statekv.Versioned
	name    schemas.Name
	through uint64
	removed bool // all of it may go
}

// collect reads what is due of sessions until a segment is full, and gives those that are left.
func (a *Archive) collect(ctx context.Context, todo []session, now time.Time, forget bool) (b batch, left []session, err error) {
	for i, s := range todo {
		full, err := a.collectOne(ctx, s, now, forget, &b)
		if err != nil {
			return b, nil, err
		}
		if full {
			return b, todo[i:], nil // with the rest of this one
		}
	}
	return b, nil, nil
}

func (a *Archive) collectOne(ctx context.Context, s session, now time.Time, forget bool, b *batch) (full bool, err error) {
	var entries []statekv.Entry
	var oldest []statekv.Versioned
	size := b.bytes
	err = a.Log.Entries(ctx, s.newest.Name(), statekv.Revision{}, func(e statekv.Entry) (bool, error) {
		v, err := e.Record()
		if err != nil {
			return false, err
		}
		entries, oldest = append(entries, e), append(oldest, v)
		size += len(e.Value)
		return size < a.Most && a.Policy.Old(s.newest, v, now), nil
	})
	if err != nil {
		return false, err
	}
	n := a.Policy.Due(s.newest, s.count, oldest, now, forget)
	for _, e := range entries[:n] {
		b.revisions = append(b.revisions, segment.Revision(e))
		b.bytes += len(e.Value)
	}
	if n > 0 {
		b.purges = append(b.purges, purge{newest: s.newest, name: s.newest.Name(), through: entries[n-1].Seq, removed: entries[n-1].Seq == s.newest.Rev.Seq()})
	}
	return size >= a.Most && n > 0, nil
}

// move writes one segment, and purges what is in it.
func (a *Archive) move(ctx context.Context, at *place, b batch, now, created time.Time, out *Pass) error {
	s, err := segment.Seal(segment.Options{
		Previous: at.End, Log: created, Written: now, Key: a.Key.Recipient(), Signer: a.Signer, Host: a.Host,
	}, b.revisions)
	if err != nil {
		return err
	}
	if err := s.Put(ctx, a.Store); err != nil {
		return err
	}
	if err := a.steps("written"); err != nil {
		return err
	}
	if err := a.readBack(ctx, s.Ref, b.revisions); err != nil {
		return err
	}
	if err := a.steps("compared"); err != nil {
		return err
	}
	for _, p := range b.purges {
		if a.Moving == nil {
			break
		}
		if err := a.Moving(ctx, p.newest); err != nil {
			return fmt.Errorf("move revisions of session %s: %w", p.name, err)
		}
	}
	next := at.Head
	next.End, next.Log, next.At, next.Key, next.Pending = s.Ref, created, now, a.Key.Recipient().String(), true
	next.Top, next.Bytes = max(next.Top, s.Header.Last), next.Bytes+s.Size()
	if through := a.Policy.through(now); through.After(next.Through) {
		next.Through = through
	}
	if err := a.swap(ctx, at, next); err != nil {
		if errors.Is(err, ErrMoved) {
			return errors.Join(err, a.withdraw(ctx, s.Ref))
		}
		return err
	}
	out.Segments, out.Bytes = out.Segments+1, out.Bytes+s.Size()
	if err := a.steps("recorded"); err != nil {
		return err
	}
	for _, p := range b.purges {
		if err := a.purge(ctx, p, out); err != nil {
			return err
		}
	}
	return a.purged(ctx, at)
}

func (a *Archive) swap(ctx context.Context, at *place, next Head) error {
	rev, err := a.Heads.Swap(ctx, at.rev, next)
	if err != nil {
		return err
	}
	at.Head, at.rev = next, rev
	return nil
}

// purged notes that nothing of the last segment is in NATS any more.
func (a *Archive) purged(ctx context.Context, at *place) error {
	if err := a.steps("purged"); err != nil {
		return err
	}
	next := at.Head
	next.Pending = false
	return a.swap(ctx, at, next)
}

// purge drops what was moved of one session.
func (a *Archive) purge(ctx context.Context, p purge, out *Pass) error {
	began := time.Now()
	err := a.Log.Purge(ctx, p.name, statekv.RevisionAt(p.through), p.removed)
	if errors.Is(err, statekv.ErrNewest) {
		out.Problems = append(out.Problems, err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	if p.removed {
		out.Sessions++
	}
	if err := a.steps("purging"); err != nil {
		return err
	}
	select {
	case <-time.After(max(a.Pause, time.Since(began))):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readBack compares a segment in the store with what is to be purged.
func (a *Archive) readBack(ctx context.Context, at segment.Ref, want []segment.Revision) error {
	i := 0
	_, err := segment.Read(ctx, a.Store, at, a.own, []age.Identity{a.Key}, func(r segment.Revision) error {
		if i >= len(want) || !same(r, want[i]) {
			return fmt.Errorf("read back log segment %d: revision %d is another one", at.Number, i+1)
		}
		i++
		return nil
	})
	if err == nil && i != len(want) {
		err = fmt.Errorf("read back log segment %d: it has %d of %d revisions", at.Number, i, len(want))
	}
	return err
}

// own trusts what was just signed.
func (a *Archive) own(string) []ed25519.PublicKey {
	return []ed25519.PublicKey{a.Signer.Public().(ed25519.PublicKey)}
}

func same(a, b segment.Revision) bool {
	return a.Seq == b.Seq && a.Subject == b.Subject && a.Time.Equal(b.Time) && bytes.Equal(a.Value, b.Value)
}

// withdraw deletes a segment that lost against another of its number: no chain can come to have
// it, unless another archive has taken it for its own.
func (a *Archive) withdraw(ctx context.Context, at segment.Ref) error {
	h, _, err := a.Heads.Get(ctx)
	if err != nil || h.End.Number < at.Number {
		return err
	}
	chain, err := segment.Walk(ctx, a.Store, h.End, at.Number, a.Known)
	if err != nil {
		return err
	}
	for _, l := range chain {
		if l.Err != nil || l.Ref == at {
			return nil
		}
	}
	return a.Store.Delete(ctx, at.Name)
}
