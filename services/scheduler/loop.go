package scheduler

import (
	"context"
	"strings"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// tracked is what the loop knows of one session. There may be a million of them:
// what few of them need has no field here.
type tracked struct {
	key   string // tenant.session
	view  packed
	rev   statekv.Revision
	home  *home // the host where it counts; nil if it does on none
	place int32 // in the queue
	seat  int32 // at home; nowhere if it takes up none
	bed   int32 // among those of its tenant that run; nowhere if it doesn't

	fresh   bool // it is among those that are decided about next
	acting  bool // a swap for it is under way
	going   bool // it counts as a suspend under way at home
	waiting bool // its suspend is due, and waits for room
}

func (t *tracked) name() schemas.Name {
	tenant, id, _ := strings.Cut(t.key, ".")
	return schemas.Name{Tenant: schemas.Tenant(tenant), Session: schemas.SessionID(id)}
}

// loop is the state of one run; its goroutine alone touches it.
type loop struct {
	s          *Scheduler
	base       time.Time // what times are counted from; it carries a monotonic clock
	sessions   map[string]*tracked
	scratch    []byte     // for a key that is looked up
	strangers  []string   // heard of before any record, the oldest first
	fresh      []*tracked // to be decided about now
	queue      queue      // and later
	backlog    []*tracked // and when others are through
	waking     int        // that are no suspends, under way
	telling    int        // notices under way
	homes      map[schemas.HostID]*home
	pace       pace
	pressed    map[*home]time.Time // the hosts that may be too full, and since when
	tenancies  map[schemas.Tenant]*tenancy
	lines      map[schemas.Tenant]struct{} // those with sessions that wait for a place
	awaited    int                         // wakes whose record hasn't been seen
	acted      chan acted
	acts       *acts
	diary      *diary    // nil if none is kept
	heardSince time.Time // no grace began before
	read       uint64    // the revision of the last record that was read
	hearing    bool      // all that was stored has been heard
	through    time.Time // up to when all was heard that was taken; zero if the bus doesn't say
	lateSaid   time.Time // when it was logged last that this is long ago
	leading    bool      // deciding is ours
	deciding   bool
	bad        int           // messages that were no activity
	badSaid    time.Time     // when that was logged last
	always     chan struct{} // closed: ready for whoever waits for it
}

// acted says that a session was acted on, as its record stood at a revision.
type acted struct {
	t       *tracked
	rev     statekv.Revision
	verdict session.Verdict
	done    bool // the record was changed
}

// atOnce is how many sessions are decided about before it is looked whether anything
// was heard: at a start they all are.
const atOnce = 1000

// actAgain is when a session is decided about again if acting on its record
// didn't bring a new one.
const actAgain = time.Second

func newLoop(s *Scheduler) *loop {
	always := make(chan struct{})
	close(always)
	return &loop{
		s: s, always: always, base: time.Now(), sessions: map[string]*tracked{}, homes: map[schemas.HostID]*home{}, pace: newPace(), pressed: map[*home]time.Time{},
		tenancies: map[schemas.Tenant]*tenancy{}, lines: map[schemas.Tenant]struct{}{},
		acted: make(chan acted), acts: newActs(), diary: newDiary(s.Bus), leading: s.Lead == nil,
	}
}

func (s *Scheduler) run(ctx context.Context) error {
	l := newLoop(s)
	defer l.acts.wait()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	pages := time.NewTicker(diaryEvery)
	defer pages.Stop()
	known, heard := s.known, (chan struct{})(nil) // while the records are read nothing is heard: who is a stranger is known only then
	var glances []statekv.Glance
	var messages []stream.Heard
	for {
		busy := l.arm(timer)
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
		case a := <-l.acted:
			l.done(a)
		case l.leading = <-s.leads:
		case h := <-s.hosts:
			l.report(h)
		case <-s.Policies.Changed():
			l.reconsider()
		case <-busy:
		case <-pages.C:
			l.diary.sweep(l.deciding) // and turn writes what was gathered
		case <-timer.C: // act takes what is due
		}
		l.turn(ctx)
	}
}

// arm sets the timer for the first session that is due. It gives a channel that is
// ready if there is something to do already.
func (l *loop) arm(timer *time.Timer) <-chan struct{} {
	switch {
	case len(l.fresh) > 0:
		return l.always
	case len(l.pressed)+len(l.lines) > 0 && (len(l.queue) == 0 || l.queue[0].at > l.now()+pressEvery):
		timer.Reset(pressEvery)
	case len(l.queue) > 0:
		timer.Reset(max(l.queue[0].at-l.now(), 0))
	}
	return nil
}

// now is the time since the loop began.
func (l *loop) now() time.Duration { return time.Since(l.base) }

// turn decides what there is to decide.
func (l *loop) turn(ctx context.Context) {
	if should := l.hearing && l.leading; should != l.deciding {
		l.deciding = should
		l.s.active.Store(should)
		if should {
			l.reconsider()
		} else {
			l.rest()
		}
	}
	if l.deciding {
		l.act(ctx)
		l.relieve(ctx)
		l.serveLines(ctx)
		l.write(ctx)
	}
}

// reconsider has every session decided about anew.
func (l *loop) reconsider() {
	if !l.deciding {
		return
	}
	for _, t := range l.sessions {
		l.touch(t)
	}
	for tenant := range l.lines {
		l.tenancies[tenant].stirred = true // the quota may be another
	}
}

// rest forgets what was to be decided: another scheduler does that now.
func (l *loop) rest() {
	for _, t := range append(l.fresh, l.backlog...) {
		t.fresh = false
	}
	l.fresh, l.backlog = nil, nil
	l.queue.clear()
	for _, h := range l.homes {
		h.giveUp()
	}
	l.disband()
}

// strangers bounds how many sessions without a record are remembered: activity
// may come before the record does, but a flood for names that don't exist must
// not fill the memory. The oldest make room.
const strangers = 1000

// find looks a session up.
func (l *loop) find(n schemas.Name) (*tracked, bool) {
	l.scratch = append(append(append(l.scratch[:0], n.Tenant...), '.'), n.Session...)
	t, ok := l.sessions[string(l.scratch)]
	return t, ok
}

func (l *loop) track(n schemas.Name) *tracked {
	if t, ok := l.find(n); ok {
		return t
	}
	t := &tracked{key: n.Key(), place: nowhere, seat: nowhere, bed: nowhere}
	l.sessions[t.key] = t
	return t
}

// stranger makes room for a session that is heard of before its record is seen.
func (l *loop) stranger(n schemas.Name) {
	l.strangers = append(l.strangers, n.Key())
	l.s.intake.Stranger(len(l.strangers) > strangers)
	if len(l.strangers) <= strangers {
		return
	}
	oldest := l.strangers[0]
	l.strangers = l.strangers[1:]
	if t, ok := l.sessions[oldest]; ok && t.view.uid == "" {
		l.forget(t)
	}
}

// forget drops a session that is gone for good.
func (l *loop) forget(t *tracked) {
	l.queue.drop(t)
	l.leave(t)
	l.outOfLine(t)
	l.uncountRunning(t)
	delete(l.sessions, t.key)
}

func (l *loop) seeAll(all []statekv.Glance) {
	for i := range all {
		l.see(&all[i])
	}
}

func (l *loop) see(g *statekv.Glance) {
	t := l.track(g.Record.Name())
	v := l.view(t)
	v.See(g.Record, time.Now())
	t.view.pack(&v, l.base)
	t.rev = g.Rev
	l.read = max(l.read, g.Rev.Seq())
	was := t.home
	l.leave(t)
	if g.Record.State == schemas.Deleted && g.Record.Op == nil {
		l.forget(t)
		return
	}
	if l.enter(t); t.home != was && t.home != nil { // else it has had its place
		l.arrived(t)
	}
	l.countRunning(t)
	if g.Record.State != schemas.Suspended && len(l.lines) > 0 {
		l.outOfLine(t)
	}
	l.touch(t)
}

// view is what is known of a session. Whoever changes it packs it again.
func (l *loop) view(t *tracked) session.View {
	return t.view.unpack(t.name(), l.base, l.heardSince)
}

// done comes back to a session whose record was acted on: at once if it has
// changed since, else in a while, so that what fails is not tried in a circle.
func (l *loop) done(a acted) {
	a.t.acting = false
	if a.verdict != session.Suspend {
		l.waking-- // act has the next of the backlog decided about
	}
	gone, changed := l.sessions[a.t.key] != a.t, a.t.rev != a.rev
	if h := l.tenancies[a.t.tenant()]; h != nil && (gone || changed || !a.done) {
		l.shown(h, a.t) // else it counts until its record is seen
		l.idle(a.t.tenant(), h)
	}
	if gone {
		return
	}
	if !a.done && !changed { // else it counts as its new record says
		l.leave(a.t)
		l.enter(a.t)
	}
	switch {
	case !l.deciding:
	case changed:
		l.touch(a.t)
	default:
		l.queue.put(a.t, l.now()+actAgain)
	}
}

// unblock has as many of the backlog decided about as there is room for: those that
// needn't be woken any more take up none.
func (l *loop) unblock() {
	n := min(max(actorsAtOnce-l.waking-len(l.fresh), 0), len(l.backlog))
	l.fresh, l.backlog = append(l.fresh, l.backlog[:n]...), l.backlog[n:]
}

// touch has a session decided about now.
func (l *loop) touch(t *tracked) {
	if !l.deciding || t.fresh {
		return
	}
	l.queue.drop(t)
	t.fresh = true
	l.fresh = append(l.fresh, t)
}

func (l *loop) hearAll(all []stream.Heard) {
	for i := range all {
		l.hear(&all[i])
	}
}

func (l *loop) hear(h *stream.Heard) {
	switch {
	case h.CaughtUp:
		// Every grace starts anew: silence that nobody could break is not idleness.
		l.hearing, l.heardSince, l.through = true, time.Now(), h.Through
		close(l.s.ready)
	case h.Gap:
		l.heardSince = time.Now()
	case !h.Through.IsZero():
		l.through = h.Through
	case h.Bad != nil:
		l.complain(h.Bad)
	default:
		l.listen(&h.Message)
	}
}

// listen takes in activity. Used again, a session becomes idle later, so that it need
// not be decided about before the time that was known: but for one that is woken by it,
// and for a lease that ends earlier than it would have.
func (l *loop) listen(m *session.Message) {
	n := m.Source.Name
	t, ok := l.find(n)
	if !ok {
		l.stranger(n)
		t = l.track(n)
	}
	woken := t.view.woken()
	v := l.view(t)
	p := l.policy(&v)
	l.take(&v, m, p)
	t.view.packHeard(&v, l.base)
	switch at, scheduled := l.queue.at(t); {
	case !l.deciding:
	case !woken && t.view.woken() && v.Record.State == schemas.Suspended:
		l.touch(t)
	case scheduled && m.Source.Kind.Lease():
		if ends := l.until(m); ends < at {
			l.queue.put(t, ends)
		}
	}
}

// until is when a lease ends that a message speaks of, at the latest.
func (l *loop) until(m *session.Message) time.Duration {
	at := m.At.Sub(l.base)
	if ttl := time.Duration(m.Activity.TTL); ttl > 0 && !m.Activity.Released {
		at += ttl
	} else if !m.Activity.Released {
		at += schemas.DefaultLease
	}
	return at
}

// complain logs what is no activity, now and then: anyone may publish it, as fast
// as he likes.
func (l *loop) complain(err error) {
	l.bad++
	if now := time.Now(); now.Sub(l.badSaid) > time.Minute {
		l.s.Log.Warn("not activity", "err", err, "since_the_last_warning", l.bad)
		l.bad, l.badSaid = 0, now
	}
}
