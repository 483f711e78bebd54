package search

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sort"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/search/index"
)

// maxPlaces bounds how many parts of recordings are read for one question that an index answers.
const maxPlaces = 4096

// read reads the places that ended at the horizon or later, the last ones first, until enough is found.
func (h *hunt) read(ctx context.Context) error {
	h.bound()
	for due := h.due(); due > 0 && !h.enough(h.places); due = h.due() {
		g, gctx := errgroup.WithContext(ctx)
		for range cap(h.searcher.turns) {
			n := together(h.places[:due])
			if n == 0 {
				break
			}
			all := h.places[:n]
			h.places, due, h.unread = h.places[n:], due-n, h.unread-n
			g.Go(func() error {
				done, err := h.searcher.turn(gctx)
				if err != nil {
					return err
				}
				defer done()
				return h.readTogether(gctx, all)
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// due says how many of the first places ended at the horizon or later.
func (h *hunt) due() int {
	return sort.Search(len(h.places), func(i int) bool { return h.places[i].Ended.Before(h.horizon) })
}

// Places that are read together are in one segment, which is opened once for them, and span so much output.
const spanned = 1 << 20

// together says how many of the first places are read together.
func together(places []place) (n int) {
	if len(places) == 0 {
		return 0
	}
	first := places[0]
	from, to := first.From, first.To
	for n = 1; n < len(places); n++ {
		p := places[n]
		if from, to = min(from, p.From), max(to, p.To); p.rec != first.rec || p.End != first.End || to-from > spanned {
			break
		}
	}
	return n
}

// enough reports whether nothing is wanted of the places that are left, and of what is beyond the horizon. One that ended at the moment of
// the last line may have one that is listed before that.
func (h *hunt) enough(left []place) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	found := h.best()
	if len(found) < h.Limit {
		return false
	}
	last := found[len(found)-1].Time
	return (len(left) == 0 || left[0].Ended.Before(last)) && (h.horizon.IsZero() || h.horizon.Before(last))
}

// readTogether reads places of one segment, the last one first. What can't be read any more isn't there: the oldest output may have been deleted
// for room.
func (h *hunt) readTogether(ctx context.Context, all []place) error {
	rec := all[0].rec
	e := h.searcher.cache.lock(rec.UID)
	defer h.searcher.cache.unlock(e)
	if e.x == nil { // it had to make room
		err := h.searcher.refresh(ctx, e, rec, false)
		if err == nil {
			err = h.searcher.opened(ctx, e, rec)
		}
		if err != nil || e.x == nil {
			return h.missed(ctx, rec, err)
		}
	}
	events, why := e.events(ctx, all)
	for i, p := range all {
		if h.enough(all[i:]) {
			break
		}
		lines, err := index.ReadBlock(p.Block, func(fn func(recording.Event) error) error {
			for _, ev := range events {
				if err := fn(ev); err != nil {
					return err
				}
			}
			return nil
		})
		found := h.lines(rec, e.x, lines)
		h.mu.Lock()
		h.found(found)
		h.mu.Unlock()
		why = cmp.Or(why, err)
	}
	return h.missed(ctx, rec, why)
}

// missed notes that a place couldn't be read.
func (h *hunt) missed(ctx context.Context, rec *schemas.SessionRecord, err error) error {
	if err == nil || lost(err) || ctx.Err() != nil {
		return ctx.Err()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	name := rec.Name().String()
	if !slices.ContainsFunc(h.failed, func(f failure) bool { return f.name == name }) {
		h.failed = append(h.failed, failure{name, err})
	}
	return nil
}

// events gives those of the output of places of one segment.
func (e *entry) events(ctx context.Context, of []place) (events []recording.Event, err error) {
	from, to := of[0].From, of[0].To
	for _, p := range of {
		from, to = min(from, p.From), max(to, p.To)
	}
	r, err := e.source.Upto(ctx, of[0].End, from)
	if err != nil {
		return nil, err
	}
	for _, seg := range r.Segments() {
		if seg.Header.End <= from {
			continue
		}
		err := r.Segment(ctx, seg, func(ev recording.Event) error {
			switch n := ev.Length(); {
			case ev.At >= to && n > 0:
				return index.ErrWhole
			case ev.At+n > from && n > 0:
				events = append(events, ev)
			}
			return nil
		})
		if err != nil && !errors.Is(err, index.ErrWhole) {
			return events, err
		}
	}
	return events, r.Why()
}

// lines gives those of some lines that are looked for.
func (h *hunt) lines(r *schemas.SessionRecord, x *index.Index, lines []index.Line) (found []attach.Found) {
	for _, hit := range h.query.Find(lines, h.Context) {
		c := x.CommandAt(hit.End - 1) // the first line of its output begins before the mark that says so
		if c == nil {
			c = x.CommandAt(hit.At)
		}
		if h.Exit != "" && (c == nil || !h.exited(*c)) || h.In == "" && echoes(hit.Line, x) {
			continue
		}
		f := attach.Found{Session: r.Name().String(), Time: hit.Time, In: attach.InOutput, At: hit.At, Line: h.query.Cut(hit.Text), Before: cutAll(hit.Before), After: cutAll(hit.After)}
		if c != nil {
			f.Command, f.Text, f.Exit = c.Number, index.Cut(c.Text), c.Exit
		}
		if found = append(found, f); len(found) == h.Limit {
			break
		}
	}
	return found
}

// maxEcho is how far before its output the line of a command begins in which it was typed, at most, in bytes.
const maxEcho = 32 << 10

// echoes reports whether a line is the one in which a command was typed, which is found itself.
func echoes(l index.Line, x *index.Index) bool {
	c := x.CommandAfter(l.At)
	if c == nil || c.From-l.At > maxEcho {
		return false
	}
	first, _, _ := strings.Cut(c.Text, "\n")
	return index.EchoOf(l.Text, strings.TrimSpace(first))
}

func cutAll(lines []string) (out []string) {
	for _, l := range lines {
		out = append(out, index.Cut(l))
	}
	return out
}

// commands gives the commands that are looked for.
func (h *hunt) commands(r *schemas.SessionRecord, x *index.Index) (found []attach.Found) {
	for _, c := range slices.Backward(x.Commands()) {
		if !h.query.During(c.Began, c.Began) || !h.query.Matches(c.Text) || h.Exit != "" && !h.exited(c) {
			continue
		}
		found = append(found, attach.Found{
			Session: r.Name().String(), Time: c.Began, In: attach.InCommands, At: c.From, Line: h.query.Cut(c.Text), Command: c.Number, Text: index.Cut(c.Text), Exit: c.Exit,
		})
		if len(found) == h.Limit {
			break
		}
	}
	return found
}
