package recordings

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/events/redact"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
)

// A redaction holds for what was recorded before it, also on a host that was away and stores it later. That host has it redacted then,
// if it has a reader's key, and else the first one that reads the recording.

// rules gives all that hold, with one more, for what is stored late. None can hold where nothing is stored: there is no key yet.
func (d *redactor) rules(ctx context.Context, more recording.Rule, epoch uint64) (*recording.Rules, error) {
	if len(d.all) == 0 {
		return nil, nil
	}
	all, err := d.reader.rules(ctx, d.is)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(r recording.Rule) bool { return r.Expression == more.Expression })
	run := d.all[len(d.all)-1].Run
	key, err := d.key(ctx, run)
	if err != nil {
		return nil, err
	}
	out, err := recording.NewRules(append(all, more), run, key)
	if err == nil {
		out.Tried(d.all, epoch)
	}
	return out, err
}

// rules opens the rules of a redaction. Where their key is deleted, so are the segments of its run, and older ones.
func (r *Reader) rules(ctx context.Context, is *recording.Redaction) ([]recording.Rule, error) {
	if is == nil || is.Rules == nil {
		return nil, nil
	}
	key, err := r.key(ctx, recording.Segment{Ref: recording.Ref{Run: is.Rules.Run}})
	if errors.Is(err, objectstore.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return is.Rules.Open(key)
}

// late redacts what was stored after a redaction.
type late struct{ spool *Spool }

// attempts bounds how often a recording is looked at again because others redact it.
const attempts = 5

// tried looks at a recording by look, which says what was redacted of it, and once more after that was tried on what came late.
func (l late) tried(ctx context.Context, r schemas.SessionRecord, look func() (*recording.Redaction, error)) error {
	for range attempts {
		is, err := look()
		if err != nil {
			return err
		}
		from, late, err := is.Late(ctx, impatient{l.spool.Objects, answerWait}, placeOf(r), l.spool.Snapshots.Signers(ctx, r.Tenant))
		if err != nil || !late {
			return err
		}
		if err := l.redact(ctx, r, is, from); err != nil && !errors.Is(err, recording.ErrRedacted) {
			return fmt.Errorf("redact what came late: %w", err)
		}
	}
	return recording.ErrRedacted
}

// redacted gives what was redacted of a recording, once that was tried on what came late.
func (l late) redacted(ctx context.Context, r schemas.SessionRecord) (is *recording.Redaction, err error) {
	err = l.tried(ctx, r, func() (*recording.Redaction, error) {
		is, err = recording.Redacted(ctx, impatient{l.spool.Objects, answerWait}, placeOf(r), l.spool.Snapshots.Signers(ctx, r.Tenant))
		return is, err
	})
	return is, err
}

// redact takes what a redaction has taken out of a recording out of what came since, and was recorded from a moment on.
func (l late) redact(ctx context.Context, r schemas.SessionRecord, is *recording.Redaction, from time.Time) error {
	reader := &Reader{spool: l.spool, place: placeOf(r), keys: map[string]age.Identity{}}
	rules, err := reader.rules(ctx, is)
	if err != nil {
		return err
	}
	rules = slices.DeleteFunc(rules, func(rule recording.Rule) bool { return !from.Before(rule.Before) })
	if len(rules) == 0 { // they are lost with their key: nothing is late any more
		rules = append(rules, recording.Rule{})
	}
	for i, rule := range rules {
		re, err := regexp.Compile(rule.Expression)
		if err != nil {
			return fmt.Errorf("%w: a rule is no expression", recording.ErrCorrupt)
		}
		d, err := newRedactor(ctx, l.spool, r, redact.Matching(re))
		if err != nil {
			return err
		}
		d.before = rule.Before
		if err := d.look(ctx); err != nil {
			return err
		}
		next := d.is.Next(d.reader.place)
		next.By, next.Matches = is.By, d.says().Matches
		if i == len(rules)-1 && next.Rules != nil {
			tried := *next.Rules
			tried.Tried(d.all, tried.Epoch)
			next.Rules = &tried
		}
		if err := d.write(ctx, next); err != nil {
			return err
		}
		l.spool.Log.Info("redacted what was stored late", r.Logged("matches", next.Matches)...)
	}
	return nil
}

// stored has what was stored of runs that are over redacted, if that was late: the session is on another host, and was redacted there.
func (l late) stored(ctx context.Context, runs []string) error {
	for _, dir := range runs {
		is, err := readRun(dir)
		if err != nil || live(dir) {
			continue
		}
		rec, err := l.spool.Records.Get(ctx, schemas.Name{Tenant: is.Tenant, Session: is.Session})
		if err != nil || rec.UID != is.UID || rec.State == schemas.Deleted || rec.Host == l.spool.Host {
			return nil // what is redacted here is stored first
		}
		if _, err = l.redacted(ctx, rec.SessionRecord); errors.Is(err, image.ErrNoKey) {
			return nil // the one that reads it does it
		}
		return err
	}
	return nil
}
