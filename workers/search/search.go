package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/recordings"
	"github.com/diapause/diapause/workers/search/index"
)

// Options is what a Searcher is made of. All fields but Most are needed.
type Options struct {
	Recordings *recordings.Spool
	// Records gives the sessions, as statekv.Store does.
	Records interface {
		Get(ctx context.Context, n schemas.Name) (statekv.Versioned, error)
		Watch(ctx context.Context, fn func(statekv.Versioned), caughtUp func()) error
	}
	// Seal has what is recorded of a session sealed up to now, if it runs here.
	Seal func(ctx context.Context, r schemas.SessionRecord)
	Most int64 // what indexes and their summaries may take in memory, in bytes, besides the indexes that are being used; Usual if 0
	Log  *slog.Logger
}

// Usual is how much Most is if it isn't said.
const Usual = 128 << 20

// Searcher searches the sessions that are recorded. Its methods may be called concurrently.
type Searcher struct {
	Options
	cache  *cache
	turns  chan struct{} // has one for each index that is looked at, and each block that is read
	wake   chan struct{}
	gather time.Duration

	mu  sync.Mutex
	due map[schemas.Name]bool
}

// New makes one.
func New(o Options) *Searcher {
	return &Searcher{
		Options: o, cache: newCache(cmp.Or(o.Most, Usual)), turns: make(chan struct{}, max(2, runtime.GOMAXPROCS(0))),
		wake: make(chan struct{}, 1), gather: gather, due: map[schemas.Name]bool{},
	}
}

// Bounds of what is asked for.
const (
	MaxLimit   = 1000
	MaxContext = 20
)

// ErrWide: all would have to be read.
var ErrWide = errors.New("an expression is looked for in one session, or a time range")

// query reads what is looked for.
func query(q attach.Search, sessions int) (*index.Query, error) {
	words := q.Words
	if q.Regexp {
		if len(words) != 1 {
			return nil, errors.New("want one regular expression")
		}
		words = nil
	}
	var out *index.Query
	var err error
	if q.Regexp {
		out, err = index.NewPattern(q.Words[0])
	} else {
		out, err = index.NewQuery(words)
	}
	if err != nil {
		return nil, err
	}
	switch out.Since, out.Until = q.Since, q.Until; {
	case out.Scans() && sessions != 1 && q.Since.IsZero():
		return nil, ErrWide
	case q.Limit < 1 || q.Limit > MaxLimit || q.Context < 0 || q.Context > MaxContext:
		return nil, fmt.Errorf("the limit is at most %d, the context %d", MaxLimit, MaxContext)
	case q.In != "" && q.In != attach.InCommands && q.In != attach.InOutput:
		return nil, fmt.Errorf("there is no %.20q to look in", q.In)
	}
	return out, nil
}

// Search calls found with the last lines of some sessions that are looked for, the last one first, and note with what is to be said
// of sessions that couldn't be searched.
func (s *Searcher) Search(ctx context.Context, q attach.Search, of []attach.Searched, found func(attach.Found) error, note func(string) error) error {
	want, err := query(q, len(of))
	if err != nil {
		return err
	}
	of = slices.Clone(of)
	slices.SortFunc(of, func(a, b attach.Searched) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID)) })
	of = slices.Compact(of)
	h := s.hunt(q, want)
	if err := h.look(ctx, of); err != nil {
		return err
	}
	for _, text := range h.notes() {
		if err := note(text); err != nil {
			return err
		}
	}
	for _, f := range h.best() {
		if err := found(f); err != nil {
			return err
		}
	}
	return nil
}

// turn waits until something may be done.
func (s *Searcher) turn(ctx context.Context) (done func(), err error) {
	select {
	case s.turns <- struct{}{}:
		return func() { <-s.turns }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// place is a block that may have lines that are looked for.
type place struct {
	rec *schemas.SessionRecord
	index.Block
}

// hunt is a search under way.
type hunt struct {
	attach.Search
	searcher *Searcher
	query    *index.Query
	sought   *index.Sought
	horizon  time.Time // of sessions that weren't asked yet nothing is later
	unread   int       // so many places may be read

	mu     sync.Mutex
	places []place
	all    []attach.Found
	failed []failure
	looked int
	cut    bool      // not all places were read
	oldest time.Time // what ended before isn't among the last places any more
}

func (s *Searcher) hunt(q attach.Search, want *index.Query) *hunt {
	return &hunt{searcher: s, query: want, sought: want.Sought(), unread: maxPlaces, Search: q}
}

// failure is a session that couldn't be searched.
type failure struct {
	name string
	err  error
}

// candidate is a session that may have what is looked for.
type candidate struct {
	attach.Searched
	latest time.Time // nothing of it is later
}

// look asks the sessions: first those that have to be looked up, and of the others those that may have something, the ones with the latest output
// first, until enough is found.
func (h *hunt) look(ctx context.Context, of []attach.Searched) error {
	unknown, candidates := h.sift(of)
	if err := h.sessions(ctx, unknown); err != nil {
		return err
	}
	if h.looked == 0 && len(h.failed) > 0 {
		return fmt.Errorf("no session can be searched: %w", h.failed[0].err)
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int { return b.latest.Compare(a.latest) })
	for n := cap(h.searcher.turns); ; n *= 2 {
		n = min(n, len(candidates))
		some := make([]attach.Searched, 0, n)
		for _, c := range candidates[:n] {
			some = append(some, c.Searched)
		}
		if err := h.sessions(ctx, some); err != nil {
			return err
		}
		candidates, h.horizon = candidates[n:], time.Time{}
		if len(candidates) > 0 {
			h.horizon = candidates[0].latest
		}
		if err := h.read(ctx); err != nil {
			return err
		}
		if len(candidates) == 0 || h.enough(h.places) {
			break
		}
	}
	h.horizon = time.Time{}
	h.cut = h.cut && !h.enough(nil)
	return nil
}

// sift says which of some sessions have to be looked up, and which of the others may have what is looked for.
func (h *hunt) sift(of []attach.Searched) (unknown []attach.Searched, candidates []candidate) {
	for _, s := range of {
		k, ok := h.searcher.cache.knows(s)
		if !ok || k.record.Host != h.searcher.Recordings.Host { // another host removes and redacts it
			unknown = append(unknown, s)
			continue
		}
		h.looked++
		if latest := h.latest(k.summary); !latest.IsZero() {
			candidates = append(candidates, candidate{s, latest})
		}
	}
	return unknown, candidates
}

// may says whether a session may have what is looked for, by the summary of its index, in its output and in its commands.
func (h *hunt) may(s *index.Summary) (output, commands bool) {
	output, commands = h.In != attach.InCommands, h.In != attach.InOutput
	if s == nil {
		return output, commands
	}
	return output && s.MayShow(h.sought), commands && s.MayType(h.sought)
}

// latest gives a moment that nothing of what is looked for is later than in a session; zero if it has nothing.
func (h *hunt) latest(s *index.Summary) (at time.Time) {
	if s == nil {
		return at
	}
	output, commands := h.may(s)
	line, command := s.Latest()
	if output {
		at = line
	}
	if commands && command.After(at) {
		at = command
	}
	return at
}

// sessions asks the indexes of some sessions.
func (h *hunt) sessions(ctx context.Context, of []attach.Searched) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(cap(h.searcher.turns))
	for _, s := range of {
		g.Go(func() error {
			done, err := h.searcher.turn(ctx)
			if err != nil {
				return err
			}
			defer done()
			if err := h.session(ctx, s); err != nil && ctx.Err() == nil {
				h.mu.Lock()
				h.failed = append(h.failed, failure{s.Name, err})
				h.mu.Unlock()
			}
			return ctx.Err()
		})
	}
	return g.Wait()
}

// record gives that of a session; nil if it was removed meanwhile.
func (h *hunt) record(ctx context.Context, of attach.Searched) (*schemas.SessionRecord, error) {
	if k, ok := h.searcher.cache.knows(of); ok && k.record.Host == h.searcher.Recordings.Host {
		return k.record, nil
	}
	n, err := schemas.ParseName(of.Name)
	if err != nil {
		return nil, err
	}
	if template, is := n.Template(); is {
		return nil, fmt.Errorf("%s is a template", template)
	}
	rec, err := h.searcher.Records.Get(ctx, n)
	if err != nil || rec.State == schemas.Deleted || of.UID != "" && rec.UID != of.UID {
		return nil, err
	}
	return &rec.SessionRecord, nil
}

// session asks the index of one session.
func (h *hunt) session(ctx context.Context, of attach.Searched) error {
	rec, err := h.record(ctx, of)
	if err != nil || rec == nil {
		return err
	}
	e := h.searcher.cache.lock(rec.UID)
	defer h.searcher.cache.unlock(e)
	before := int64(0)
	if e.x != nil {
		before = e.x.Read()
	}
	if err := h.searcher.refresh(ctx, e, rec, true); err != nil {
		return err
	}
	h.mu.Lock()
	h.looked++
	h.mu.Unlock()
	output, commands := h.may(e.summary)
	if !output && !commands || e.empty {
		return nil
	}
	fresh := e.x != nil
	if err := h.searcher.opened(ctx, e, rec); err != nil || e.x == nil {
		return err
	}
	if fresh && e.x.Read() > before && e.due(*rec) {
		h.searcher.Touch(rec.Name(), rec.UID)
	}
	return h.ask(rec, e.x, output, commands)
}

// ask takes what an index knows.
func (h *hunt) ask(r *schemas.SessionRecord, x *index.Index, output, commands bool) error {
	var all []attach.Found
	var places []place
	h.mu.Lock()
	oldest := h.oldest
	h.mu.Unlock()
	if commands {
		all = h.commands(r, x)
	}
	var err error
	if output {
		all = append(all, h.lines(r, x, x.Tail())...)
		var blocks []index.Block
		blocks, err = x.Blocks(h.query, oldest)
		for _, b := range blocks {
			if h.Exit == "" || x.Within(b, h.exited) {
				places = append(places, place{r, b})
			}
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.found(all)
	if h.places = append(h.places, places...); len(h.places) > 2*maxPlaces && !h.query.Scans() {
		h.bound()
		if h.unread > 0 {
			h.oldest = h.places[h.unread-1].Ended
		}
	}
	return err
}

// bound keeps the last places, the last one first. Callers hold mu.
func (h *hunt) bound() {
	slices.SortStableFunc(h.places, func(a, b place) int { return b.Ended.Compare(a.Ended) })
	if most := max(h.unread, 0); len(h.places) > most && !h.query.Scans() {
		clear(h.places[most:])
		h.places, h.cut = h.places[:most], true
	}
}

// found takes what was found, and drops what isn't wanted once that is much. Callers hold mu.
func (h *hunt) found(all []attach.Found) {
	if h.all = append(h.all, all...); len(h.all) > 2*h.Limit {
		h.all = h.best()
	}
}

// exited reports whether a command ended as is asked for.
func (h *hunt) exited(c schemas.TypedCommand) bool { return attach.ExitedWith(c, h.Exit) }

// best gives the lines that were found, each once: one that had not ended may be there once more, as it was.
func (h *hunt) best() []attach.Found {
	slices.SortFunc(h.all, func(a, b attach.Found) int {
		return cmp.Or(cmp.Compare(a.Session, b.Session), cmp.Compare(a.In, b.In), cmp.Compare(a.At, b.At), cmp.Compare(len(b.Line), len(a.Line)))
	})
	h.all = slices.CompactFunc(h.all, func(a, b attach.Found) bool { return a.Session == b.Session && a.In == b.In && a.At == b.At })
	all := slices.SortedFunc(slices.Values(h.all), attach.Newest)
	return all[:min(len(all), h.Limit)]
}

// manyNotes bounds how many sessions are named that couldn't be searched.
const manyNotes = 5

// notes says what wasn't searched.
func (h *hunt) notes() (notes []string) {
	slices.SortFunc(h.failed, func(a, b failure) int { return cmp.Compare(a.name, b.name) })
	for i, f := range h.failed {
		if i == manyNotes {
			notes = append(notes, fmt.Sprintf("%d more sessions couldn't be searched", len(h.failed)-i))
			break
		}
		notes = append(notes, fmt.Sprintf("session %s can't be searched: %v", f.name, f.err))
	}
	if h.cut {
		notes = append(notes, "too many parts may have it, and the oldest weren't read: name a session or a time range")
	}
	return notes
}
