package scheduler

import (
	"context"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// loop is one run: it folds what is read into the table, decides what is due, and hands
// the verdicts to those that carry them out. Its goroutine alone touches it and its parts.
type loop struct {
	s        *Scheduler
	table    *table
	agenda   *agenda
	lag      *lag
	hosts    *hosts
	quotas   *quotas
	actor    *actor
	evictor  *evictor
	waker    *waker
	notifier *notifier
	history  *history // nil if none is kept
	pulses   pulses

	leading bool      // deciding is ours, once all was heard
	bad     int       // messages that were no activity
	badSaid time.Time // when that was logged last
}

// atOnce is how many sessions are decided about before it is looked whether anything
// was heard: at a start they all are.
const atOnce = 1000

// actAgain is when a session is decided about again if acting on its record
// didn't bring a new one.
const actAgain = time.Second

func newLoop(s *Scheduler) *loop {
	l := &loop{
		s: s, table: newTable(s.Policies), lag: &lag{log: s.Log}, quotas: newQuotas(s.Policies), actor: newActor(s),
		history: newHistory(s.Bus), leading: s.Lead == nil, pulses: pulses{},
	}
	if a, ok := s.Bus.(asker); ok {
		l.lag.ask = a.Ask
	}
	l.agenda, l.hosts = newAgenda(l.table.clock), newHosts(l.table.clock, slotsBy(s.Policies))
	l.evictor = &evictor{table: l.table, hosts: l.hosts, lag: l.lag, actor: l.actor, pulses: l.pulses}
	l.waker = &waker{table: l.table, agenda: l.agenda, quotas: l.quotas, hosts: l.hosts, lag: l.lag, evictor: l.evictor, actor: l.actor}
	l.notifier = &notifier{table: l.table, agenda: l.agenda, actor: l.actor}
	return l
}

func (s *Scheduler) run(ctx context.Context) error {
	l := newLoop(s)
	defer l.actor.acts.wait()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	pages := time.NewTicker(historyEvery)
	defer pages.Stop()
	known, heard := s.known, (chan struct{})(nil) // nothing is heard while the records are read: only then it is known what has no record
	var glances []statekv.Glance
	var messages []stream.Heard
	for {
		busy := l.agenda.arm(timer, len(l.hosts.crowded)+len(l.quotas.queues) > 0)
		select {
		case <-ctx.Done():
			return nil
		case <-s.records.some:
			glances = s.records.take(glances)
			l.seeAll(glances)
		case <-known:
			known, heard = nil, s.heard.some
			l.seeAll(s.records.take(nil))
		case <-heard:
			messages = s.heard.take(messages)
			l.hearAll(messages)
		case fn := <-s.asks:
			fn(l)
		case a := <-l.actor.acted:
			l.done(a)
		case l.leading = <-s.leads:
		case taken := <-s.Taken:
			l.taken(taken)
		case <-s.missed.some:
			l.table.miss(s.missed.take())
		case h := <-s.hosts:
			l.hosts.announced(h)
			token(s.stirred)
		case <-s.Policies.Changed():
			l.reconsider()
			token(s.stirred) // hosts may have more slots now
		case <-busy:
		case <-pages.C:
			l.history.sweep(l.agenda.open) // and turn writes what was gathered
			l.pulses.sweep(l.table.now())
		case <-timer.C: // act takes what is due
		}
		l.turn(ctx)
	}
}

// turn decides what there is to decide.
func (l *loop) turn(ctx context.Context) {
	if should := l.lag.hearing && l.leading; should != l.agenda.open {
		l.agenda.open = should
		l.s.active.Store(should)
		if should {
			l.reconsider()
		} else {
			l.rest()
		}
	}
	if l.agenda.open {
		l.act(ctx)
		l.evictor.relieve(ctx)
		l.waker.serve(ctx)
		l.history.write(ctx, l.actor, l.table.heardSince)
	}
}

// reconsider has every session decided about again.
func (l *loop) reconsider() {
	if !l.agenda.open {
		return
	}
	for _, t := range l.table.sessions {
		l.agenda.touch(t)
	}
	for _, h := range l.hosts.byName {
		l.hosts.suspect(h) // it may have fewer slots now
	}
	l.quotas.stir()
}

// rest forgets what was to be decided: another scheduler does that now.
func (l *loop) rest() {
	l.agenda.clear()
	l.hosts.giveUp()
	l.quotas.clear()
}

// forget drops a session that is gone for good.
func (l *loop) forget(t *tracked) {
	l.agenda.queue.drop(t)
	l.hosts.leave(t)
	l.quotas.withdraw(t)
	l.quotas.uncount(t)
	delete(l.pulses, t)
	l.table.drop(t)
}

func (l *loop) seeAll(all []statekv.Glance) {
	for i := range all {
		l.see(&all[i])
	}
}

// see takes in a record.
func (l *loop) see(g *statekv.Glance) {
	t := l.table.track(g.Record.Name())
	v := l.table.view(t)
	v.See(g.Record, time.Now())
	t.view.pack(&v, l.table.base)
	t.rev = g.Rev
	l.hosts.read = max(l.hosts.read, g.Rev.Seq())
	was := t.host
	l.hosts.leave(t)
	if was != nil && g.Record.State != schemas.Running { // a slot may be free, or will be
		token(l.s.stirred)
	}
	if g.Record.State == schemas.Deleted && g.Record.Op == nil {
		l.forget(t)
		return
	}
	if l.hosts.enter(t); t.host != was && t.host != nil { // else it has had its slot
		l.hosts.arrived(t)
	}
	l.quotas.count(t)
	if g.Record.State != schemas.Suspended && len(l.quotas.queues) > 0 {
		l.quotas.withdraw(t)
	}
	l.agenda.touch(t)
}

// done comes back to a session whose record was acted on: at once if it has
// changed since, else in a while, so that what fails is not tried in a circle.
func (l *loop) done(a acted) {
	a.t.acting = false
	if a.verdict != session.Suspend {
		l.actor.waking-- // act has the next of the backlog decided about
	}
	gone, changed := !l.table.has(a.t), a.t.rev != a.rev
	if gone || changed || !a.done {
		l.quotas.unawait(a.t) // else it counts until its record is seen
	}
	if gone {
		return
	}
	if !a.done && !changed { // else it counts as its new record says
		l.hosts.leave(a.t)
		l.hosts.enter(a.t)
	}
	switch {
	case !l.agenda.open:
	case changed:
		l.agenda.touch(a.t)
	default:
		l.agenda.later(a.t, actAgain)
	}
}

// act decides about sessions that are due, atOnce of them at most.
func (l *loop) act(ctx context.Context) {
	now := l.table.now()
	for range atOnce {
		t := l.agenda.next(now)
		if t == nil {
			break
		}
		l.decide(ctx, t)
	}
	l.agenda.resume(actorsAtOnce - l.actor.waking)
	switch {
	case len(l.hosts.pace.hungry) == 0:
	case l.lag.inTime():
		l.admit(ctx)
	default:
		l.lag.warn()
	}
}

// decide does what is to be done about one session now.
func (l *loop) decide(ctx context.Context, t *tracked) {
	if t.acting || t.waiting || t.view.uid == "" {
		return // done comes back to it, or admit, or see
	}
	if t.view.rests() {
		return // as Decide would say, of nine in ten at a start
	}
	v := l.table.view(t)
	p, now := l.table.policy(&v), time.Now()
	v.Forget(p, now)
	l.table.repack(t, &v)
	d := session.Decide(&v, p, now)
	switch d.Verdict {
	case session.Leave:
		if !d.Next.IsZero() {
			l.agenda.at(t, d.Next)
		}
	case session.Suspend:
		l.hosts.wait(t, v.Score(p.Score, now), v.IdleSince())
	case session.Notify:
		l.notifier.notify(ctx, t, &v, d)
	default:
		l.waker.wake(ctx, t, d)
	}
}

// admit begins the suspends that may begin now. Each is decided about again: it may have
// waited long.
func (l *loop) admit(ctx context.Context) {
	for t := l.hosts.pick(); t != nil; t = l.hosts.pick() {
		v := l.table.view(t)
		d := session.Decide(&v, l.table.policy(&v), time.Now())
		if d.Verdict != session.Suspend {
			l.agenda.touch(t)
			continue
		}
		l.hosts.count(t)
		l.actor.carryOut(ctx, t, d)
	}
}

func (l *loop) hearAll(all []stream.Heard) {
	for i := range all {
		l.hear(&all[i])
	}
}

// hear takes in what the activity stream brings.
func (l *loop) hear(h *stream.Heard) {
	switch {
	case h.CaughtUp:
		// Every grace starts again: silence that could not be heard is no idleness.
		l.lag.hearing, l.table.heardSince = true, time.Now()
		l.lag.heard(h.Through)
		close(l.s.ready)
	case h.Gap:
		l.table.heardSince = time.Now()
	case !h.Through.IsZero():
		l.lag.heard(h.Through)
	case h.Unproved != nil:
		l.s.Log.Warn("what the NATS server drops when it can't keep up isn't noticed", "err", h.Unproved)
	case h.Bad != nil:
		l.complain(h.Bad)
	default:
		l.listen(&h.Message)
	}
}

// taken takes in whether activity is taken. What wasn't taken is lost: every grace starts again.
func (l *loop) taken(is bool) {
	l.lag.refused = time.Now()
	if is {
		l.lag.refused, l.table.heardSince = time.Time{}, time.Now()
	}
}

// listen takes in activity. Used again, a session becomes idle later, so that it need not
// be decided about before the time that was known, except one that is woken by it, and
// except for a lease that ends earlier than it would have.
func (l *loop) listen(m *session.Message) {
	n := m.Source.Name
	t, ok := l.table.find(n)
	if !ok {
		t = l.unrecorded(n)
	}
	woken := t.view.woken()
	v := l.table.view(t)
	p := l.table.policy(&v)
	l.take(&v, m, p)
	if p.EffectOf(m.Source, m.Activity).Counts {
		l.pulses.heard(t, m, m.At.Sub(l.table.base), l.table.now())
	}
	l.table.repack(t, &v)
	if m.Activity.Released {
		token(l.s.stirred)
	}
	switch at, scheduled := l.agenda.queue.at(t); {
	case !l.agenda.open:
	case !woken && t.view.woken() && v.Record.State == schemas.Suspended:
		l.agenda.touch(t)
	case scheduled && m.Source.Kind.Lease():
		if ends := l.until(m); ends < at {
			l.agenda.queue.put(t, ends)
		}
	}
}

// unrecorded tracks a session that is heard of before its record is seen.
func (l *loop) unrecorded(n schemas.Name) *tracked {
	oldest, dropped := l.table.unseen(n)
	l.s.intake.Stranger(dropped)
	if oldest != nil {
		l.forget(oldest)
	}
	return l.table.track(n)
}

// take has a session hear a message, and notes what silence that ended.
func (l *loop) take(v *session.View, m *session.Message, p session.Policy) {
	if l.history == nil || v.Record.UID == "" {
		v.Hear(*m, p)
		return
	}
	was, used := v.QuietSince(p), v.Last().At
	v.Hear(*m, p)
	if l.agenda.open { // else it was stored before, and its silence is long over
		l.history.heard(was, used, v, m, p)
	}
	if l.lag.hearing || m.Source.Kind.Lease() && ends(m).After(time.Now()) { // or lives on
		l.history.uses.heard(v.Record.UID, m)
	}
}

// until is when a lease ends that a message speaks of, at the latest.
func (l *loop) until(m *session.Message) time.Duration {
	at := m.At.Sub(l.table.base)
	if ttl := time.Duration(m.Activity.TTL); ttl > 0 && !m.Activity.Released {
		at += ttl
	} else if !m.Activity.Released {
		at += schemas.DefaultLease
	}
	return at
}

// complain logs what is no activity, now and then: any client may publish it, at any rate.
func (l *loop) complain(err error) {
	l.bad++
	if now := time.Now(); now.Sub(l.badSaid) > time.Minute {
		l.s.Log.Warn("not activity", "err", err, "since_the_last_warning", l.bad)
		l.bad, l.badSaid = 0, now
	}
}
