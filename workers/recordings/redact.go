package recordings

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/redact"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
)

// Wanted is what is to be taken out of a recording.
type Wanted struct {
	Match  *regexp.Regexp
	By     string    // who asks for it
	Before time.Time // it holds for what was recorded before this moment and is stored later, too; zero for now
	Dry    bool      // it is only to be said how much it would be
}

// Redact takes out of all that is stored of a session's recording what is wanted, and deletes what was stored. It says how much
// that is, or would be. The session isn't woken. What is spilled here is stored first.
//
// What replaces segments is stored under names of its own; then one object makes all of it count at once; then the old objects are
// deleted. After a crash before that object the recording is as it was, and after it as it is to be: the next Redact
// deletes what is left, also if it finds nothing.
func (s *Spool) Redact(ctx context.Context, r schemas.SessionRecord, want Wanted) (schemas.Redacted, error) {
	var out schemas.Redacted
	if r.Lineage == "" {
		return out, nil
	}
	fail := func(err error) (schemas.Redacted, error) {
		return out, fmt.Errorf("redact the recording of session %s: %w", r.Name(), err)
	}
	if want.Before.IsZero() {
		want.Before = time.Now()
	}
	if err := s.flush(ctx, r.UID); err != nil {
		return fail(err)
	}
	d, err := newRedactor(ctx, s, r, redact.Matching(want.Match))
	if err != nil {
		return fail(err)
	}
	if err := d.look(ctx); err != nil {
		return fail(err)
	}
	out = d.says()
	if want.Dry {
		return out, nil
	}
	next := d.is.Next(d.reader.place)
	next.By, next.Matches = want.By, out.Matches
	rule := recording.Rule{Expression: want.Match.String(), Before: want.Before.UTC().Round(0)}
	if next.Rules, err = d.rules(ctx, rule, r.Epoch); err != nil {
		return fail(err)
	}
	if err := d.write(ctx, next); err != nil {
		return fail(err)
	}
	return out, nil
}

// flush stores all that was spilled here.
func (s *Spool) flush(ctx context.Context, uid schemas.UID) error {
	if _, err := s.Store(ctx, uid); err != nil {
		return err
	}
	runs, err := s.runs(uid)
	for _, dir := range runs {
		left, leftErr := spilled(dir)
		if err == nil {
			err = leftErr
		}
		if err == nil && len(left) > 0 && !live(dir) {
			err = errors.New("a part of it waits on this host, and can't be stored")
		}
	}
	return err
}

// redactor redacts one recording.
type redactor struct {
	spool    *Spool
	reader   *Reader
	is       *recording.Redaction // what counts
	match    redact.Matcher
	before   time.Time       // what was recorded after that stays; zero if all is to be redacted
	all      []recording.Ref // by their names alone: what is stored
	segments []looked
	lists    []recording.OpenedList // those that change
	kinds    [len(masked)]kind
	left     bool // something counts for nothing, and is to be deleted

	commands, unreadable int
	running              *schemas.TypedCommand // with a match
}

// masked are the kinds of events of which something is taken out.
var masked = [...]recording.Code{recording.Output, recording.Errors, recording.Input, recording.Mark, recording.Frame}

// looked is a segment that was looked at.
type looked struct {
	recording.Segment
	from, to [len(masked)]int64 // its part of the events of each kind, in bytes
}

// kind is all of one kind of events, as if they were one.
type kind struct {
	at     int64
	finder *redact.Finder
	found  []redact.Range
	starts []int64
	full   bool
}

// maxFound bounds how much is found.
const maxFound = 1 << 20

func (k *kind) take(r redact.Range, begins bool) {
	if k.full {
		return
	}
	if begins {
		k.starts = append(k.starts, r.From)
	}
	k.found = append(k.found, r)
	if len(k.found) < 2*maxFound && len(k.starts) < 2*maxFound {
		return
	}
	k.tidy()
	k.full = len(k.found) > maxFound || len(k.starts) > maxFound
}

// tidy puts in order what was found.
func (k *kind) tidy() {
	k.found = redact.Merge(k.found)
	slices.Sort(k.starts)
	k.starts = slices.Compact(k.starts)
}

// in reports whether something was found in a part.
func (k *kind) in(from, to int64) bool {
	part := k.within(from, to)
	return len(part) > 0
}

// within gives what was found in a part, once it is in order.
func (k *kind) within(from, to int64) []redact.Range {
	first, _ := slices.BinarySearchFunc(k.found, from, func(r redact.Range, at int64) int {
		if r.To <= at {
			return -1
		}
		return 1
	})
	last := first
	for last < len(k.found) && k.found[last].From < to {
		last++
	}
	return k.found[first:last]
}

func newRedactor(ctx context.Context, s *Spool, r schemas.SessionRecord, match redact.Matcher) (*redactor, error) {
	reader, err := s.open(ctx, r, recording.Part{})
	if err != nil {
		return nil, err
	}
	is, err := recording.Redacted(ctx, s.Objects, reader.place, s.Snapshots.Signers(ctx, r.Tenant))
	if err != nil {
		return nil, err
	}
	d := &redactor{spool: s, reader: reader, is: is, match: match}
	for i := range d.kinds {
		k := &d.kinds[i]
		k.finder = redact.NewFinder(match, k.take)
	}
	d.left, err = is.Left(ctx, s.Objects, reader.place)
	return d, err
}

// look finds what is to be taken out of everything that is stored.
func (d *redactor) look(ctx context.Context) error {
	all, err := recording.All(ctx, d.spool.Objects, d.reader.place)
	if err != nil {
		return err
	}
	d.all = all.Segments
	known := map[recording.Ref]recording.Segment{}
	listed := map[recording.Ref]recording.Ref{}
	for _, seg := range d.reader.chain.Segments {
		known[named(seg.Ref)] = seg
		if l := seg.Listed; l != nil {
			listed[named(*l)] = *l
		}
	}
	trusted := d.spool.Snapshots.Signers(ctx, d.reader.place.Tenant)
	for _, at := range all.Segments {
		seg, ok := known[at]
		if !ok {
			seg, err = recording.Head(ctx, d.spool.Objects, d.reader.place, at, trusted, d.is)
		}
		if err == nil {
			err = d.lookAt(ctx, seg)
		}
		if err = d.passOver(ctx, err); err != nil {
			return err
		}
	}
	for i := range d.kinds {
		k := &d.kinds[i]
		k.finder.End()
		k.tidy()
		if k.full || len(k.found) > maxFound {
			return schemas.WithHint(errors.New("there are too many matches"), "give an expression that matches less")
		}
	}
	for _, at := range all.Lists {
		if ref, ok := listed[at]; ok {
			at = ref
		}
		l, err := recording.ReadList(ctx, d.spool.Objects, d.reader.place, at, trusted, d.is, d.key)
		if err == nil {
			d.lookAtList(l)
		}
		if err = d.passOver(ctx, err); err != nil {
			return err
		}
	}
	return nil
}

// named is a segment by its name alone.
func named(r recording.Ref) recording.Ref { return recording.Ref{Run: r.Run, Number: r.Number} }

// passOver counts what can't be read, and never can: no one can read it either. What is gone was deleted for room.
func (d *redactor) passOver(ctx context.Context, err error) error {
	switch {
	case err == nil || ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, objectstore.ErrNotFound):
		return nil
	case recording.Lasting(err):
		d.unreadable++
		d.spool.Log.Warn("a part of a recording can't be read, and isn't redacted", "uid", string(d.reader.place.UID), "err", err)
		return nil
	}
	return err
}

func (d *redactor) key(ctx context.Context, run string) (age.Identity, error) {
	return d.reader.key(ctx, recording.Segment{Ref: recording.Ref{Run: run}})
}

func (d *redactor) lookAt(ctx context.Context, seg recording.Segment) error {
	is := looked{Segment: seg}
	for i, k := range d.kinds {
		is.from[i] = k.at
	}
	err := d.reader.readSegment(ctx, seg, func(e recording.Event) error {
		if i := slices.Index(masked[:], e.Code); i >= 0 {
			d.kinds[i].finder.Write(e.Data)
			d.kinds[i].at += int64(len(e.Data))
		}
		return nil
	})
	for i, k := range d.kinds {
		is.to[i] = k.at
	}
	if err == nil {
		d.segments = append(d.segments, is)
	}
	return err
}

// lookAtList takes what is found out of commands.
func (d *redactor) lookAtList(l recording.OpenedList) {
	changed := false
	for i := range l.Commands {
		c := &l.Commands[i]
		if !d.due(c.Began) {
			continue
		}
		text, dir := redact.Masked(c.Text, d.match), redact.Masked(c.Dir, d.match)
		if text == c.Text && dir == c.Dir {
			continue
		}
		c.Text, c.Dir, changed = text, dir, true
		if c.Running() {
			d.running = c
			continue // it is counted when it has ended
		}
		d.commands++
		if d.running != nil && d.running.Number == c.Number {
			d.running = nil
		}
	}
	if changed {
		d.lists = append(d.lists, l)
	}
}

// due reports whether something is to be redacted that began at a moment.
func (d *redactor) due(began time.Time) bool { return d.before.IsZero() || began.Before(d.before) }

// touched reports whether something was found in a segment.
func (d *redactor) touched(seg looked) bool {
	if !d.due(seg.Header.From) {
		return false
	}
	for i := range d.kinds {
		if d.kinds[i].in(seg.from[i], seg.to[i]) {
			return true
		}
	}
	return false
}

// says counts what was found.
func (d *redactor) says() schemas.Redacted {
	out := schemas.Redacted{Commands: d.commands, Unreadable: d.unreadable}
	if d.running != nil {
		out.Commands, out.Running = out.Commands+1, d.running.Number
	}
	for i, code := range masked {
		if code == recording.Frame {
			out.Screens += len(d.kinds[i].starts)
		} else {
			out.Matches += len(d.kinds[i].starts)
		}
	}
	for _, seg := range d.segments {
		if d.touched(seg) {
			out.Segments++
		}
	}
	return out
}

// write stores what was found without it, and has that count as next.
func (d *redactor) write(ctx context.Context, next recording.Redaction) error {
	tag := recording.Tag(next.Generation, strings.ToLower(rand.Text()[:10]))
	changed := false
	for _, seg := range d.segments {
		if !d.touched(seg) {
			continue
		}
		key, err := d.reader.key(ctx, seg.Segment)
		if err != nil {
			return err
		}
		is, err := seg.Rewrite(ctx, d.spool.Objects, d.reader.place, key, tag, d.mask(seg))
		if errors.Is(err, objectstore.ErrNotFound) {
			continue // it was deleted for room
		}
		if err != nil {
			return err
		}
		next.Replace(seg.Ref, is, nil)
		changed = true
	}
	for _, l := range d.lists {
		key, err := d.key(ctx, l.Run)
		if err != nil {
			return err
		}
		is, err := l.Rewrite(ctx, d.spool.Objects, d.reader.place, key, tag)
		if err != nil {
			return err
		}
		next.Replace(l.Ref, nil, is)
		changed = true
	}
	if err := d.spool.Failpoints.At(ctx, failpoint.RedactWritten); err != nil {
		return err
	}
	if !changed && !d.left && next.Rules == nil {
		return d.is.Clear(ctx, d.spool.Objects, d.reader.place)
	}
	next.At, next.Signer = time.Now().UTC().Truncate(time.Second), d.spool.Host
	if err := next.Put(ctx, d.spool.Objects, d.reader.place, d.spool.Signer); err != nil {
		return err
	}
	d.spool.forgetRedacted()
	if err := d.spool.Failpoints.At(ctx, failpoint.RedactCounts); err != nil {
		return err
	}
	return next.Clear(ctx, d.spool.Objects, d.reader.place)
}

// forgetRedacted has what was redacted looked up again.
func (s *Spool) forgetRedacted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.redacted)
}

// mask gives what takes out of the events of a segment what was found in it.
func (d *redactor) mask(seg looked) func(recording.Event) {
	at := seg.from
	return func(e recording.Event) {
		i := slices.Index(masked[:], e.Code)
		if i < 0 {
			return
		}
		end := at[i] + int64(len(e.Data))
		redact.Mask(e.Data, at[i], d.kinds[i].within(at[i], end))
		at[i] = end
	}
}
