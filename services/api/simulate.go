package api

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/diapause/diapause/events/policykv"
	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/session/replay"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// silent is a scheduler that knows which sessions are quiet now.
type silent interface {
	Silences(ctx context.Context, in func(schemas.SessionRecord) bool) ([]schemas.Silence, error)
}

// simulateSince is how far back a simulation goes if nobody says.
const simulateSince = 24 * time.Hour

// policySimulate lives the last hours again under another policy, and under the one that
// holds, by what the diary says of them.
func (s *Server) policySimulate(ctx context.Context, req schemas.Request) (any, error) {
	scope, p, trial, err := s.trial(ctx, req)
	if err != nil {
		return nil, err
	}
	quiet, ok := s.Scheduler.(silent)
	if !ok {
		return nil, failed("no scheduler runs here that keeps a diary")
	}
	since := time.Duration(req.Policy.Since)
	if since <= 0 {
		since = simulateSince
	}
	past := newPast(scope, time.Now().Add(-since))
	if err := past.read(ctx, s, quiet); err != nil {
		return nil, err
	}
	if past.first.IsZero() {
		return nil, refused("the diary says nothing of the last %s: it is written while a scheduler runs, for 14 days at most", since)
	}
	out := past.simulate(s.Policies.For, trial)
	if p.Counts != nil || p.Wakes != nil || p.Ignore != nil {
		out.Notes = append(out.Notes, "counts, wakes and ignore make no difference here: the diary doesn't keep each activity, only when a session was used by the policy of that time")
	}
	return out, nil
}

// past is a stretch of the log.
type past struct {
	scope       schemas.PolicyScope
	from, to    time.Time
	first       time.Time // what the diary knows since
	holes       time.Duration
	silences    map[schemas.UID][]schemas.Silence
	lives       map[schemas.UID]*lived
	took        map[schemas.TransitionType]*spent
	writer      string
	writtenLast time.Time
}

// lived is what the log says of one session.
type lived struct {
	record  schemas.SessionRecord
	from    time.Time
	to      time.Time // zero: it goes on
	bytes   float64
	began   time.Time // of the suspend or resume under way
	waiting schemas.TransitionType
	asked   []time.Time // for a resume, with no activity
}

// spent is how long steps took.
type spent struct {
	n     int
	total time.Duration
}

func newPast(scope schemas.PolicyScope, from time.Time) *past {
	return &past{
		scope: scope, from: from, to: time.Now(), silences: map[schemas.UID][]schemas.Silence{}, lives: map[schemas.UID]*lived{},
		took: map[schemas.TransitionType]*spent{schemas.TSuspend: {}, schemas.TResume: {}},
	}
}

func (p *past) read(ctx context.Context, s *Server, quiet silent) error {
	if err := stream.ReadDiary(ctx, s.JS, s.Names, p.from, p.page); err != nil {
		return err
	}
	now, err := quiet.Silences(ctx, func(r schemas.SessionRecord) bool { return policykv.Covers(p.scope, r) })
	if err != nil {
		return err
	}
	for _, one := range now {
		p.silences[one.UID] = append(p.silences[one.UID], one)
	}
	return s.Records.Log(ctx, func(v statekv.Versioned) error {
		if policykv.Covers(p.scope, v.SessionRecord) {
			p.revision(v.SessionRecord)
		}
		return nil
	})
}

// page takes in one page of the diary.
func (p *past) page(d schemas.Diary) {
	known := p.writtenLast
	if known.IsZero() || d.Writer != p.writer {
		begun := d.Since
		if begun.Before(p.from) {
			begun = p.from
		}
		if known.IsZero() {
			p.first = begun
		} else if begun.After(known) {
			p.holes += begun.Sub(known)
		}
	} else if gap := d.At.Sub(known); gap > 2*schemas.DiaryEvery {
		p.holes += gap
	}
	p.writer, p.writtenLast = d.Writer, d.At
	for _, one := range d.Silences {
		p.silences[one.UID] = append(p.silences[one.UID], one)
	}
}

// revision takes in one revision of a record.
func (p *past) revision(r schemas.SessionRecord) {
	l := p.lives[r.UID]
	if l == nil {
		l = &lived{from: r.Created}
		p.lives[r.UID] = l
	}
	at := r.Transition.At
	switch r.Transition.Type {
	case schemas.TSuspend, schemas.TResume:
		l.began, l.waiting = at, r.Transition.Type
		if r.Transition.Type == schemas.TResume && !strings.HasPrefix(r.Transition.Actor, "scheduler@") {
			l.asked = append(l.asked, at)
		}
	case schemas.TSuspended:
		p.spend(l, schemas.TSuspend, at)
	case schemas.TResumed:
		p.spend(l, schemas.TResume, at)
	}
	switch r.State {
	case schemas.Exited, schemas.Failed, schemas.Deleted:
		if l.to.IsZero() {
			l.to = at
		}
	default:
		l.to = time.Time{}
	}
	if r.Size != nil {
		l.bytes = float64(r.Size.Logical)
	}
	l.record = r
}

func (p *past) spend(l *lived, t schemas.TransitionType, at time.Time) {
	if l.waiting == t {
		p.took[t].n++
		p.took[t].total += at.Sub(l.began)
	}
	l.waiting = ""
}

func (s *spent) average(otherwise time.Duration) time.Duration {
	if s.n == 0 {
		return otherwise
	}
	return s.total / time.Duration(s.n)
}

// broken gives silences with those parted that somebody broke by asking for a resume.
func broken(silences []schemas.Silence, asked []time.Time) []schemas.Silence {
	for _, at := range asked {
		for i, s := range silences {
			if ms := at.UnixMilli(); s.From < ms && ms < s.To {
				silences[i].To, silences[i].What = ms, "resume"
				s.From, s.Used = ms, 0
				silences = append(silences, s)
				break
			}
		}
	}
	return silences
}

func (p *past) simulate(now, would func(schemas.SessionRecord) session.Policy) schemas.PolicySimulation {
	out := schemas.PolicySimulation{Scope: p.scope, From: p.first.UTC(), To: p.to.UTC(), Holes: schemas.Duration(p.holes.Round(time.Second))}
	costs := replay.Costs{Suspend: p.took[schemas.TSuspend].average(time.Second), Resume: p.took[schemas.TResume].average(500 * time.Millisecond)}
	unsized := 0
	for uid, l := range p.lives {
		from, to := l.from, l.to
		if from.Before(p.first) {
			from = p.first
		}
		if to.IsZero() {
			to = p.to
		}
		if !from.Before(to) {
			continue
		}
		out.Sessions++
		if len(p.silences[uid]) == 0 {
			out.Unknown++
			continue
		}
		if l.bytes == 0 {
			unsized++
		}
		life := replay.FromSilences(l.record, from, to, broken(p.silences[uid], l.asked))
		replay.Sum(&out.Now, replay.Run(life, replay.AsKnown(now(l.record)), costs), costs, l.bytes)
		replay.Sum(&out.Would, replay.Run(life, replay.AsKnown(would(l.record)), costs), costs, l.bytes)
	}
	if unsized > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("%d sessions were never suspended yet: what memory they take isn't known, and counts as none", unsized))
	}
	if p.first.After(p.from.Add(time.Minute)) {
		out.Notes = append(out.Notes, "the diary doesn't go back as far as was asked for")
	}
	if p.holes > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("for %s no diary was kept: silences that began and ended in that time count as use", p.holes.Round(time.Second)))
	}
	return out
}
