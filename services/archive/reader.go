package archive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/segment"
	"github.com/diapause/diapause/schemas"
)

// Records is the log as NATS has it, as a reader needs it.
type Records interface {
	History(ctx context.Context, n schemas.Name) ([]statekv.Versioned, error)
	LogOf(ctx context.Context, t schemas.Tenant, fn func(statekv.Versioned) error) error
}

// Reader gives the log with what was moved out of NATS. It is safe for concurrent use.
type Reader struct {
	Records    Records
	Heads      Heads
	Store      objectstore.Store
	Known      segment.Trusted
	Identities []age.Identity
	Notes      *slog.Logger
}

// Gap is a part of a session's revisions that can't be read, or a whole segment.
type Gap struct {
	Name     schemas.Name // the zero one: of which sessions isn't known
	From, To uint64       // versions
	Why      string
}

// String says what is missing.
func (g Gap) String() string {
	if g.Name == (schemas.Name{}) {
		return g.Why
	}
	return fmt.Sprintf("session %s: versions %d to %d are missing: %s", g.Name, g.From, g.To, g.Why)
}

// History gives every revision of a session's name, oldest first, and the gaps between them. It
// reads segments only if NATS hasn't got the first, from the newest segment back.
// Errors: statekv.ErrNoSession, those of the log and, for as long as it answers nothing, the store.
func (r *Reader) History(ctx context.Context, n schemas.Name) ([]statekv.Versioned, []Gap, error) {
	here, err := r.Records.History(ctx, n)
	if err != nil && !errors.Is(err, statekv.ErrNoSession) {
		return nil, nil, err
	}
	if len(here) > 0 && here[0].Version <= 1 {
		return here, nil, nil
	}
	none := err
	chain, err := r.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	var parts [][]statekv.Versioned
	for i := len(chain.links) - 1; i >= 0 && !complete(parts, here); i-- {
		var part []statekv.Versioned
		err := r.read(ctx, &chain, i, func(v statekv.Versioned) error {
			if v.Name() == n {
				part = append(part, v)
			}
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
		if len(part) > 0 {
			parts = append(parts, part)
		}
	}
	slices.Reverse(parts)
	m := newMerge(&chain)
	var out []statekv.Versioned
	for _, v := range slices.Concat(append(parts, here)...) {
		if m.next(v) {
			out = append(out, v)
		}
	}
	if len(out) == 0 {
		return nil, nil, none
	}
	return out, m.gaps, nil
}

// complete reports whether the oldest part, or what NATS has, begins with the first version.
func complete(parts [][]statekv.Versioned, here []statekv.Versioned) bool {
	if len(parts) == 0 {
		return false
	}
	return parts[len(parts)-1][0].Version <= 1 && len(here) > 0
}

// Log calls fn with the revisions of a tenant's sessions, of all if it is empty, those of each
// session in their order; and gives the gaps between them. since bounds what is needed: the state of
// each session from then on, everything if it is zero. It reads segments only if that isn't
// all in NATS.
func (r *Reader) Log(ctx context.Context, t schemas.Tenant, since time.Time, fn func(statekv.Versioned) error) ([]Gap, error) {
	chain, err := r.open(ctx)
	if err != nil {
		return nil, err
	}
	m := newMerge(&chain)
	m.since = since
	tell := func(v statekv.Versioned) error {
		if (t == "" || v.Tenant == t) && m.next(v) {
			return fn(v)
		}
		return nil
	}
	if since.IsZero() || since.Before(chain.head.Through) {
		m.since = time.Time{}
		for i := range chain.links {
			if err := r.read(ctx, &chain, i, tell); err != nil {
				return nil, err
			}
		}
	}
	// What is moved while NATS is read isn't found there, and is in a later segment.
	err = r.Records.LogOf(ctx, t, func(v statekv.Versioned) error {
		if m.hole(v) {
			if err := r.catchUp(ctx, &chain, v.Name(), fn, m); err != nil {
				return err
			}
		}
		return tell(v)
	})
	if err == nil {
		err = r.catchUp(ctx, &chain, schemas.Name{}, fn, m)
	}
	if len(m.gaps) > 0 || m.since.IsZero() {
		for _, why := range chain.lost { // sessions that NATS knows nothing of any more may have been there
			m.gaps = append(m.gaps, Gap{Why: why})
		}
	}
	return m.gaps, err
}

// catchUp reads the segments that were written since the chain was read: of one session, or of
// all.
func (r *Reader) catchUp(ctx context.Context, c *chain, n schemas.Name, fn func(statekv.Versioned) error, m *merge) error {
	h, _, err := r.Heads.Get(ctx)
	if err != nil || h.End == c.head.End {
		return err
	}
	later, err := r.open(ctx)
	if err != nil {
		return err
	}
	for i, l := range later.links {
		if l.Number <= c.head.End.Number {
			continue
		}
		err := r.read(ctx, &later, i, func(v statekv.Versioned) error {
			// Of the others, those that are still to come from NATS come from there.
			if (v.Name() == n || n == (schemas.Name{}) && !m.hole(v)) && m.next(v) {
				return fn(v)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// chain is the chain of segments as it was read last.
type chain struct {
	head  Head
	links []segment.Linked
	lost  []string // what is missing of it, by name
}

func (r *Reader) open(ctx context.Context) (c chain, err error) {
	if c.head, _, err = r.Heads.Get(ctx); err != nil {
		return c, err
	}
	links, err := segment.Walk(ctx, r.Store, c.head.End, 1, r.Known)
	if err != nil {
		return c, err
	}
	for i, l := range links {
		if l.Err == nil {
			c.links = append(c.links, l)
			continue
		}
		why := l.Err.Error()
		if i == 0 && l.Number > 1 {
			why += fmt.Sprintf("; those before it can't be found without it, numbers 1 to %d", l.Number-1)
		}
		c.lost = append(c.lost, why)
	}
	return c, nil
}

// read calls fn with the revisions of one segment that are the log's. One that can't be read is
// noted as missing.
func (r *Reader) read(ctx context.Context, c *chain, i int, fn func(statekv.Versioned) error) error {
	l := c.links[i]
	var failed error
	_, err := segment.Read(ctx, r.Store, l.Ref, r.Known, r.Identities, func(e segment.Revision) error {
		if !c.head.has(l.Number, e.Seq) {
			return nil
		}
		v, err := statekv.Entry(e).Record()
		if err == nil {
			err = fn(v)
		}
		failed = err
		return err
	})
	switch {
	case err == nil || failed != nil:
		return failed
	case errors.Is(err, objectstore.ErrNotFound), errors.Is(err, segment.ErrCorrupt), errors.Is(err, segment.ErrForged), errors.Is(err, segment.ErrNoKey):
		c.lost = append(c.lost, err.Error())
		return nil
	}
	return err
}

// merge puts the revisions of each session in order, each once, and finds what is missing.
type merge struct {
	chain *chain
	since time.Time // before it nothing needs to be there
	last  map[schemas.Name]lastSeen
	gaps  []Gap
}

type lastSeen struct{ seq, version uint64 }

func newMerge(c *chain) *merge { return &merge{chain: c, last: map[schemas.Name]lastSeen{}} }

// hole reports whether revisions are missing before this one.
func (m *merge) hole(v statekv.Versioned) bool {
	l, known := m.last[v.Name()]
	if !known && !m.since.IsZero() {
		return false
	}
	return v.Version > l.version+1 && v.Rev.Seq() > l.seq
}

// next reports whether a revision is to be told: not if it was, from another place.
func (m *merge) next(v statekv.Versioned) bool {
	n := v.Name()
	l, known := m.last[n]
	if known && v.Rev.Seq() <= l.seq {
		return false
	}
	if m.hole(v) {
		m.gaps = append(m.gaps, Gap{n, l.version + 1, v.Version - 1, m.why()})
	}
	m.last[n] = lastSeen{v.Rev.Seq(), v.Version}
	return true
}

func (m *merge) why() string {
	why := m.chain.lost
	for _, f := range m.chain.head.Forks {
		why = append(why[:len(why):len(why)], f.String())
	}
	if len(why) == 0 {
		return "neither NATS nor a log segment has them"
	}
	return strings.Join(why, "; ")
}
