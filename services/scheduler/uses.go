package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// uses gathers when sessions were used, and by what, so that it can be tried what other
// kinds would have come to that count or wake. Its loop alone touches it.
type uses struct {
	open map[source]use
	page []schemas.Use // that ended
	lost int           // that there was no room for
}

// source is one way in which one session is used.
type source struct {
	uid  schemas.UID
	kind schemas.Kind
	key  string
	from string // of a lease: whose it is
}

// use is one that goes on.
type use struct {
	from, last time.Time
	until      time.Time // the end of a lease, else last
}

// usesMost bounds the uses that go on, and those that wait to be written: with more than
// that the use history says that it lacks some.
const usesMost = 100_000

func newUses() uses { return uses{open: map[source]use{}} }

// heard takes a message in.
func (u *uses) heard(uid schemas.UID, m *session.Message) {
	if m.Activity.Intent == schemas.IntentReconnect {
		return // it counts for nothing under any policy
	}
	of := source{uid, m.Source.Kind, "", ""}
	until := m.At
	if of.kind.Lease() {
		of.key, of.from, until = m.Source.Key, m.Source.From, ends(m)
	}
	o, goesOn := u.open[of]
	if goesOn && m.At.Before(o.last) {
		return // heard before
	}
	if goesOn && of.over(o, m.At) {
		u.end(of, o)
		goesOn = false
	}
	switch {
	case m.Activity.Released && of.kind.Lease():
		if goesOn {
			delete(u.open, of)
			u.write(schemas.Use{UID: uid, What: of.what(), From: o.from.UnixMilli(), To: min(m.At.UnixMilli(), o.until.UnixMilli())})
		}
		return
	case !goesOn && len(u.open) >= usesMost:
		u.lost++
		return
	case !goesOn:
		o.from = m.At
	}
	o.last, o.until = m.At, until
	u.open[of] = o
}

// over reports whether a use has ended: a lease when it has run out, all else when it
// wasn't heard again for long enough.
func (s source) over(o use, now time.Time) bool {
	if s.kind.Lease() {
		return o.until.Before(now)
	}
	return now.Sub(o.until) >= silenceMin
}

// ends is when a message no longer says that the session is in use.
func ends(m *session.Message) time.Time {
	switch ttl := time.Duration(m.Activity.TTL); {
	case !m.Source.Kind.Lease(), m.Activity.Released:
		return m.At
	case ttl <= 0:
		return m.At.Add(schemas.DefaultLease)
	default:
		return m.At.Add(min(ttl, schemas.MaxLease))
	}
}

func (s source) what() string { return what(schemas.Source{Kind: s.kind, Key: s.key}) }

// at gives a use as it stands at a time.
func (s source) at(o use, now time.Time) schemas.Use {
	out := schemas.Use{UID: s.uid, What: s.what(), From: o.from.UnixMilli(), To: min(o.until.UnixMilli(), now.UnixMilli())}
	if s.kind.Lease() {
		out.Last = o.last.UnixMilli()
	}
	return out
}

// end writes a use down that is over, and forgets it.
func (u *uses) end(of source, o use) {
	delete(u.open, of)
	u.write(of.at(o, o.until))
}

func (u *uses) write(one schemas.Use) {
	if len(u.page) >= usesMost {
		u.lost++
		return
	}
	if one.To == one.From {
		one.To = 0
	}
	u.page = append(u.page, one)
}

// sweep ends the uses of which nothing more was heard, and writes down what there is of
// those that go on for long: a scheduler that dies loses no more than a part. A
// scheduler that stands by writes nothing.
func (u *uses) sweep(now time.Time, writes bool) {
	for of, o := range u.open {
		switch {
		case of.over(o, now):
			u.end(of, o)
		case writes && now.Sub(o.from) >= schemas.UsePart:
			u.write(of.at(o, now))
			if o.from = now; o.until.Before(now) {
				o.from = o.until
			}
			u.open[of] = o
		}
	}
	if !writes {
		u.page, u.lost = nil, 0
	}
}

// take gives what is to be written, and how many are missing.
func (u *uses) take() ([]schemas.Use, int) {
	out, lost := u.page[:min(len(u.page), historyBatch)], u.lost
	u.page, u.lost = slices.Clone(u.page[len(out):]), 0
	return out, lost
}

// Uses gives the uses that aren't in the use history yet, of all sessions.
func (s *Scheduler) Uses(ctx context.Context) (out []schemas.Use, err error) {
	err = s.ask(ctx, func(l *loop) {
		if l.history == nil {
			return
		}
		now := time.Now()
		out = slices.Clone(l.history.uses.page)
		for of, o := range l.history.uses.open {
			out = append(out, of.at(o, now))
		}
	})
	return out, err
}
