package search

import (
	"context"
	"errors"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/search/index"
)

// maxPlaces bounds how many parts of recordings are read for one question that an index answers.
const maxPlaces = 4096

// read reads the places, the last ones first, until enough is found.
func (h *hunt) read(ctx context.Context) error {
	slices.SortStableFunc(h.places, func(a, b place) int { return b.Ended.Compare(a.Ended) })
	if !h.query.Scans() && len(h.places) > maxPlaces {
		h.places, h.cut = h.places[:maxPlaces], true
	}
	for len(h.places) > 0 && !h.enough() {
		n := min(len(h.places), cap(h.searcher.turns))
		g, gctx := errgroup.WithContext(ctx)
		for _, p := range h.places[:n] {
			g.Go(func() error {
				done, err := h.searcher.turn(gctx)
				if err != nil {
					return err
				}
				defer done()
				return h.place(gctx, p)
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		h.places = h.places[n:]
	}
	h.cut = h.cut && !h.enough()
	return nil
}

// enough reports whether nothing that is found from now on is wanted. A place that ended at the moment of the last line may have one that
// is listed before that.
func (h *hunt) enough() bool {
	found := h.best()
	return len(found) == h.Limit && (len(h.places) == 0 || h.places[0].Ended.Before(found[len(found)-1].Time))
}

// place reads one. What can't be read any more isn't there: the oldest output may have been deleted for room.
func (h *hunt) place(ctx context.Context, p place) error {
	e := h.searcher.cache.lock(p.rec.UID)
	defer h.searcher.cache.unlock(e)
	if e.x == nil { // it had to make room
		if err := h.searcher.refresh(ctx, e, p.rec, false); err != nil || e.x == nil {
			return h.unread(ctx, p, err)
		}
	}
	lines, err := e.read(ctx, p.Block)
	found := h.lines(p.rec, e.x, lines)
	h.mu.Lock()
	h.found(found)
	h.mu.Unlock()
	return h.unread(ctx, p, err)
}

// unread notes that a place couldn't be read.
func (h *hunt) unread(ctx context.Context, p place, err error) error {
	if err == nil || lost(err) || ctx.Err() != nil {
		return ctx.Err()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	name := p.rec.Name().String()
	if !slices.ContainsFunc(h.failed, func(f failure) bool { return f.name == name }) {
		h.failed = append(h.failed, failure{name, err})
	}
	return nil
}

// read gives the lines of a block.
func (e *entry) read(ctx context.Context, b index.Block) ([]index.Line, error) {
	r, err := e.source.Upto(ctx, b.End, b.From)
	if err != nil {
		return nil, err
	}
	return index.ReadBlock(b, func(fn func(recording.Event) error) error {
		for _, seg := range r.Segments() {
			if seg.Header.End <= b.From {
				continue
			}
			if err := r.Segment(ctx, seg, fn); err != nil && !errors.Is(err, index.ErrWhole) {
				return err
			}
		}
		return r.Why()
	})
}

// lines gives those of some lines that are looked for.
func (h *hunt) lines(r schemas.SessionRecord, x *index.Index, lines []index.Line) (found []attach.Found) {
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
func (h *hunt) commands(r schemas.SessionRecord, x *index.Index) (found []attach.Found) {
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
