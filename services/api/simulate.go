package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/diapause/diapause/events/policykv"
	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/session/replay"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/archive"
)

// silent is a scheduler that knows which sessions are quiet now.
type silent interface {
	Silences(ctx context.Context, in func(schemas.SessionRecord) bool) ([]schemas.Silence, error)
	Uses(ctx context.Context) ([]schemas.Use, error)
}

// simulateSince is how far back a simulation goes by default.
const simulateSince = 24 * time.Hour

// policySimulate lives the last hours again under another policy, and under the one that
// holds, by what the use history says of them.
func (s *policies) policySimulate(ctx context.Context, req request) (any, error) {
	scope, p, trial, err := s.trial(ctx, req)
	if err != nil {
		return nil, err
	}
	quiet, ok := s.scheduler.(silent)
	if !ok {
		return nil, schemas.FailedError(schemas.ReasonNoServer, "no scheduler runs here that keeps a use history")
	}
	since := time.Duration(req.Policy.Since)
	if since <= 0 {
		since = simulateSince
	}
	past := newPast(scope, time.Now().Add(-since))
	past.by, past.drawn = req.by, req.Policy.Lives
	past.byKind = p.Counts != nil || p.Wakes != nil || p.Ignore != nil
	if err := past.read(ctx, s, quiet); err != nil {
		return nil, err
	}
	switch {
	case past.first.IsZero() && past.byKind:
		return nil, schemas.StateError(schemas.ReasonNoHistory, "the use history of the last %s doesn't tell kinds of activity", since).WithHint("counts, wakes and ignore can't be tried on it; it is written while a scheduler runs, for 14 days at most")
	case past.first.IsZero():
		return nil, schemas.StateError(schemas.ReasonNoHistory, "the use history says nothing of the last %s", since).WithHint("it is written while a scheduler runs, for 14 days at most")
	}
	out := past.simulate(s.policies.For, trial)
	out.Notes = append(append(out.Notes, untried(p)...), overruled(scope, p, past.ruled)...)
	return out, nil
}

// untriable are the parts of policies that the use history can't tell about.
var untriable = []string{"backoff", "breaker", "checkpoints", "keep", "on_resume_failure", "on_suspend_failure", "quota", "rehearse", "score", "wake", "watermarks"}

// untried says which parts of a policy make no difference to a simulation.
func untried(p schemas.Policy) []string {
	var parts []string
	for _, line := range p.Lines() {
		if key, _, _ := strings.Cut(line, "="); slices.Contains(untriable, key) {
			parts = append(parts, key)
		}
	}
	if parts == nil {
		return nil
	}
	return []string{fmt.Sprintf("not tried: %s; the use history says when sessions were used, and nothing that these parts go by", strings.Join(parts, ", "))}
}

// past is a stretch of the log.
type past struct {
	scope       schemas.PolicyScope
	from, to    time.Time
	first       time.Time // what the use history knows since
	holes       time.Duration
	silences    map[schemas.UID][]schemas.Silence
	byKind      bool // it goes by uses, not by silences
	uses        map[schemas.UID][]schemas.Use
	unknown     []schemas.Use // when no use history was kept of them
	lost        int           // uses that the use history lacks
	ruled       int           // sessions that were run with a rule of their own
	lives       map[schemas.UID]*lived
	took        map[schemas.TransitionType]*spent
	other       map[schemas.PauseReason]int // suspends that no policy decided by itself
	gaps        []archive.Gap               // in the log
	by          Caller                      // who asks
	drawn       bool                        // single sessions are wanted, too
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
		scope: scope, from: from, to: time.Now(), silences: map[schemas.UID][]schemas.Silence{}, uses: map[schemas.UID][]schemas.Use{}, lives: map[schemas.UID]*lived{},
		took:  map[schemas.TransitionType]*spent{schemas.TSuspend: {}, schemas.TResume: {}},
		other: map[schemas.PauseReason]int{},
	}
}

func (p *past) read(ctx context.Context, s *policies, quiet silent) error {
	if err := stream.ReadUseHistory(ctx, s.js, s.names, p.from, p.page); err != nil {
		return err
	}
	now, err := quiet.Silences(ctx, func(r schemas.SessionRecord) bool { return policykv.Covers(p.scope, r) })
	if err != nil {
		return err
	}
	for _, one := range now {
		p.silences[one.UID] = append(p.silences[one.UID], one)
	}
	uses, err := quiet.Uses(ctx)
	if err != nil {
		return err
	}
	p.used(uses)
	p.gaps, err = s.past.Log(ctx, "", p.from, func(v statekv.Versioned) error {
		if policykv.Covers(p.scope, v.SessionRecord) {
			p.revision(v.SessionRecord)
		}
		return nil
	})
	return err
}

// page takes in one page of the use history.
func (p *past) page(d schemas.UseHistory) {
	if p.byKind && !d.Kinds {
		return // as if there were none
	}
	known := p.writtenLast
	if known.IsZero() || d.Writer != p.writer {
		since := d.Since
		if since.Before(p.from) {
			since = p.from
		}
		if known.IsZero() {
			p.first = since
		} else if since.After(known) {
			p.hole(known, since)
		}
	} else if d.At.Sub(known) > 2*schemas.UseHistoryEvery {
		p.hole(known, d.At)
	} else if p.byKind && d.Since.After(known) {
		p.hole(known, d.Since) // it couldn't hear for a while
	}
	p.writer, p.writtenLast = d.Writer, d.At
	for _, one := range d.Silences {
		p.silences[one.UID] = append(p.silences[one.UID], one)
	}
	p.used(d.Uses)
	p.lost += d.Lost
}

// hole notes a time of which the use history says nothing. Of the uses that went on when it
// began some part may be missing.
func (p *past) hole(from, to time.Time) {
	p.holes += to.Sub(from)
	p.unknown = append(p.unknown, schemas.Use{From: from.Add(-schemas.UsePart).UnixMilli(), To: to.UnixMilli()})
}

func (p *past) used(uses []schemas.Use) {
	for _, u := range uses {
		if p.byKind {
			p.uses[u.UID] = append(p.uses[u.UID], u)
		}
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
	if pause := r.Transition.Set.Pause; pause != nil && r.Transition.Type == schemas.TSuspend {
		switch pause.Reason {
		case schemas.PauseInactivity, schemas.PauseExpired:
		default:
			p.other[pause.Reason]++
		}
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

// broken gives silences with those parted that were broken by a request for a resume.
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

// simulate lives all lives again, under the policy that holds and under another.
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
		if l.record.Idle != nil {
			p.ruled++
		}
		if !p.byKind && len(p.silences[uid]) == 0 {
			out.Unknown++
			continue
		}
		if l.bytes == 0 {
			unsized++
		}
		as, other := p.live(l, from, to, now(l.record), costs), p.live(l, from, to, would(l.record), costs)
		replay.Sum(&out.Now, as, costs, l.bytes)
		replay.Sum(&out.Would, other, costs, l.bytes)
		if p.drawn {
			out.Lives = append(out.Lives, p.simulatedLife(l, from, to, as, other, costs))
		}
	}
	out.Lives, out.Omitted = mostDifferent(out.Lives)
	out.Notes = p.notes(unsized)
	return out
}

// live lives one life again under a policy.
func (p *past) live(l *lived, from, to time.Time, policy session.Policy, costs replay.Costs) []replay.Nap {
	uid := l.record.UID
	if !p.byKind {
		return replay.Run(replay.FromSilences(l.record, from, to, broken(p.silences[uid], l.asked)), replay.AsKnown(policy), costs)
	}
	times := replay.Times{Uses: p.uses[uid], Asked: l.asked, Unknown: p.unknown}
	return replay.Run(replay.FromUses(l.record, from, to, times, policy), replay.AsTold(policy), costs)
}

// notes says what the simulation couldn't know.
func (p *past) notes(unsized int) (out []string) {
	note := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	others := 0
	for _, g := range p.gaps {
		if g.Name != (schemas.Name{}) && !p.by.knows(g.Name) {
			others++
			continue
		}
		note("%s", g)
	}
	if others > 0 {
		note("another tenant's sessions lack a part of their log, too")
	}
	if n := p.other[schemas.PausePressure] + p.other[schemas.PauseQuota]; n > 0 {
		note("%d suspends made room for others on a host or in a quota: neither side has any of these, since what has room depends on all sessions", n)
	}
	if n := p.other[schemas.PauseManual] + p.other[schemas.PauseMove] + p.other[schemas.PauseDrain] + p.other[schemas.PauseShutdown]; n > 0 {
		note("%d suspends were asked for, or came of a move, a drain or a shutdown: neither side has any of these", n)
	}
	if unsized > 0 {
		note("%d sessions were never suspended yet: what memory they take isn't known, and counts as none", unsized)
	}
	if p.first.After(p.from.Add(time.Minute)) {
		note("the use history doesn't go back as far as was asked for")
	}
	if p.holes > 0 && p.byKind {
		note("for %s no use history was kept: that time counts as use", p.holes.Round(time.Second))
	} else if p.holes > 0 {
		note("for %s no use history was kept: silences that began and ended in that time count as use", p.holes.Round(time.Second))
	}
	if p.lost > 0 {
		note("%d uses aren't in the use history, there were too many at once: sessions look less used than they were", p.lost)
	}
	if p.byKind {
		note("uses of one kind less than 20s apart count as one; what a session would have done in times in which it slept isn't known: leases that say what it does (busy.cpu) were only heard while it ran")
	}
	return out
}
