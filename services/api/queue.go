package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/fleet"
	"github.com/diapause/diapause/services/queue"
	"github.com/diapause/diapause/services/scheduler"
)

// Lead says which of several servers acts. *lease.Office is one.
type Lead interface {
	// Serve calls tell whenever that changes, until ctx ends.
	Serve(ctx context.Context, tell func(held bool)) error
}

// placeWithin bounds how long a host is looked for, for one session: what hangs on one host doesn't hold up
// the others for longer.
const placeWithin = time.Minute

// leavesWithin is how long a placer waits for a session to leave a host. If that wasn't enough it has no other evicted there,
// and doesn't wait again, while one leaves, for slowFor at most. Once the session is gone the host has room all the same.
const (
	leavesWithin = 5 * time.Second
	slowFor      = 5 * time.Minute
)

// listedFor is how long a placer goes by one list of the hosts: one that is cordoned or gone gets nothing more.
const listedFor = 2 * time.Second

// seat finds a host for a new session. One with a terminal may get none, where none has room: it is made all the same,
// and waits. Nothing new gets a host while others wait for one that need the same.
func (s *maker) seat(ctx context.Context, w fleet.Want, req request, fresh schemas.NewSession) (room, error) {
	if req.Run == nil || req.Run.Existing != "" {
		return s.rooms.find(ctx, w, req.by)
	}
	waits := fresh.TTY && !req.Run.NoWait
	if !waits && !s.board.anyHostless() {
		return s.rooms.find(ctx, w, req.by)
	}
	hosts, err := s.hosts.fleet.Hosts(ctx)
	if err != nil {
		return room{}, err
	}
	_, d, err := s.hosts.among(ctx, hosts, w, nil)
	if err != nil {
		return room{}, err
	}
	at := room{driver: d, release: func(statekv.Revision) {}}
	switch behind := s.ahead(w, fresh, d); {
	case behind > 0 && waits:
		return at, nil
	case behind > 0:
		return room{}, schemas.StateError(schemas.ReasonNoRoom, "no host has room, and %s waited for the same first", schemas.CountSessions(behind)).
			WithHint("%s", s.rooms.why(ctx, w, hosts, req.by))
	case !waits:
		return s.rooms.find(ctx, w, req.by)
	}
	limited, cancel := context.WithTimeout(ctx, atMostHalf(ctx, placeWithin))
	defer cancel()
	got, err := s.rooms.now(limited, w, hosts, nil, scheduler.Free, scheduler.Makes, scheduler.Unheard)
	if err != nil && ctx.Err() == nil { // what keeps a host from taking it now may pass
		at.made = got.made
		return at, nil
	}
	return got, err
}

// atMostHalf gives a time limit, but no more than half of what a request has left.
func atMostHalf(ctx context.Context, limit time.Duration) time.Duration {
	if until, ok := ctx.Deadline(); ok {
		return min(limit, time.Until(until)/2)
	}
	return limit
}

// ahead counts the sessions that wait for a host that need the same as a new one.
func (s *maker) ahead(w fleet.Want, fresh schemas.NewSession, d schemas.Fingerprint) (n int) {
	kind := queue.KindOf(schemas.SessionRecord{
		Tenant: w.Session.Tenant, Session: w.Session.Session, Driver: d.Driver, Placement: fresh.Placement, Needs: fresh.Needs, Op: &schemas.Op{Only: w.Only},
	})
	for _, other := range s.board.inLine() {
		if other.Kind == kind {
			n++
		}
	}
	return n
}

// seen gives a session that waits for a host, once the board shows that it does.
func (s *maker) seen(ctx context.Context, v statekv.Versioned, ch <-chan statekv.Versioned, made []string) (any, error) {
	got, err := await(ctx, ch, func(w statekv.Versioned) (outcome, error) { return when(w.Version >= v.Version), nil })
	if err != nil {
		got = v // it is made
	}
	view := schemas.ViewOf(got.SessionRecord)
	view.MadeRoom = made
	return view, nil
}

// queued adds to sessions that wait for a host where they stand, and why no host takes them.
func (s *views) queued(ctx context.Context, by Caller, all []schemas.View) {
	if !slices.ContainsFunc(all, hasNone) || s.rooms == nil {
		return
	}
	records := map[schemas.UID]schemas.SessionRecord{}
	for _, r := range s.board.withoutHost() {
		records[r.UID] = r
	}
	places := queue.Places(queue.Of(maps.Values(records)))
	hosts, err := s.fleet.Hosts(ctx)
	reasons := map[queue.Kind]string{}
	for i := range all {
		v := &all[i]
		place, waits := places[v.UID]
		if !hasNone(*v) || !waits {
			continue
		}
		r := records[v.UID]
		kind := queue.KindOf(r)
		if _, known := reasons[kind]; !known && err == nil {
			reasons[kind] = s.rooms.why(ctx, s.rooms.hosts.wantQueued(r), hosts, by)
		} else if err != nil {
			reasons[kind] = err.Error()
		}
		place.Reason = reasons[kind]
		v.Queue = &place
	}
}

// hasNone reports whether a session waits for a host.
func hasNone(v schemas.View) bool { return v.State == schemas.Starting && v.Host == "" }

// explainQueued says why a session has no host yet.
func (s *views) explainQueued(ctx context.Context, by Caller, r schemas.SessionRecord, e *schemas.Explanation) {
	all := []schemas.View{schemas.ViewOf(r)}
	s.queued(ctx, by, all)
	e.Text = "it waits for room on a host"
	w := schemas.WaitingFor{Kind: schemas.WaitingRoom, What: "its place in the queue isn't known yet"}
	if q := all[0].Queue; q != nil {
		w.What = q.String()
		e.Text += ": it is " + q.Standing()
	}
	if r.Op.Only != "" {
		w.Subject = string(r.Op.Only)
	}
	e.Blockers = append(e.Blockers, w)
}

// placer brings sessions to hosts that were made while none had room for them: package queue says which one is
// next. Several placers at once are harmless, since each placement is one compare-and-swap.
type placer struct {
	sessions *sessions
	rooms    *rooms
	lead     Lead
	actor    string
	log      *slog.Logger

	tried map[schemas.UID]time.Time    // when each was tried last
	slow  map[schemas.HostID]time.Time // hosts of which a session hasn't left in time, and since when
}

func newPlacer(o Options, s *sessions, r *rooms) *placer {
	name := o.Name
	if name == "" {
		name = string(o.Host)
	}
	return &placer{sessions: s, rooms: r, lead: o.QueueLead, actor: "queue@" + name, log: o.Log, tried: map[schemas.UID]time.Time{}, slow: map[schemas.HostID]time.Time{}}
}

// serve works whenever a session waits, until ctx ends. While none does it holds nothing, and nothing wakes it.
func (p *placer) serve(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.sessions.board.hostless.news:
		}
		if p.sessions.board.anyHostless() {
			p.work(ctx)
		}
	}
}

// work goes through those that wait until none does.
func (p *placer) work(ctx context.Context) {
	ctx, end := context.WithCancel(ctx)
	var leading sync.WaitGroup
	defer leading.Wait()
	defer end()
	leads, acts := make(chan bool), p.lead == nil
	if p.lead != nil {
		leading.Go(func() {
			err := p.lead.Serve(ctx, func(held bool) {
				select {
				case leads <- held:
				case <-ctx.Done():
				}
			})
			if err != nil && ctx.Err() == nil {
				p.log.Warn("it isn't known which server places sessions that wait for a host", "err", err)
			}
		})
	}
	var stirred <-chan struct{}
	if maker, ok := p.rooms.scheduler.(RoomMaker); ok {
		stirred = maker.Stirred()
	}
	for p.sessions.board.anyHostless() && ctx.Err() == nil {
		least, most := queue.Slow, queue.Slow
		if acts {
			least, most = p.round(ctx)
		}
		acts = p.rest(ctx, acts, leads, stirred, least, most)
	}
}

// rest waits for news after a round, and says whether this server acts.
func (p *placer) rest(ctx context.Context, acts bool, leads <-chan bool, stirred <-chan struct{}, least, most time.Duration) bool {
	news := p.sessions.board.hostless.news
	if !acts {
		stirred = nil
	}
	pace, over := time.NewTimer(least), time.NewTimer(most)
	defer pace.Stop()
	defer over.Stop()
	for rested, some := false, false; !rested || !some; {
		select {
		case <-ctx.Done():
			return acts
		case acts = <-leads:
			return acts
		case <-news:
			if some = true; !p.sessions.board.anyHostless() {
				return acts
			}
		case <-stirred:
			some = true
		case <-pace.C:
			rested = true
		case <-over.C:
			return acts
		}
	}
	return acts
}

// round tries those that wait, in their order: first all on hosts with room, since the rest may take a while.
func (p *placer) round(ctx context.Context) (least, most time.Duration) {
	p.tidy(ctx)
	all := p.sessions.board.inLine()
	maps.DeleteFunc(p.tried, func(uid schemas.UID, _ time.Time) bool {
		return !slices.ContainsFunc(all, func(w queue.Waiting) bool { return w.UID == uid })
	})
	p.slowNoMore(time.Now())
	from := &listing{fleet: p.rooms.hosts.fleet}
	for _, tier := range []scheduler.Prospect{scheduler.Free, scheduler.Makes} {
		r, placed := p.pass(ctx, all, from, tier)
		if least, most = r.Rest(); placed { // the next round begins soon
			break
		}
	}
	return least, most
}

// slowNoMore has hosts asked for room again that no session leaves any more: it has left, and its slot was taken by another, or it
// stays, since it was used or its suspend failed. Another may go at once.
func (p *placer) slowNoMore(now time.Time) {
	maps.DeleteFunc(p.slow, func(h schemas.HostID, since time.Time) bool {
		return now.Sub(since) > slowFor || !p.sessions.board.leaves(h)
	})
}

// pass tries those that wait on hosts of one prospect.
func (p *placer) pass(ctx context.Context, all []queue.Waiting, from *listing, tier scheduler.Prospect) (r queue.Round, some bool) {
	for {
		w, ok := r.Decide(all, p.tried, time.Now())
		if !ok || ctx.Err() != nil {
			return r, some
		}
		hosts, err := from.recent(ctx)
		if err != nil {
			p.log.Warn("sessions wait for a host, and the hosts can't be listed; trying again", "err", err)
			return r, some
		}
		placed, err := p.place(ctx, w, hosts, tier)
		if some = some || placed; placed || tier == scheduler.Makes { // else it is to be tried once more in this round
			p.tried[w.UID] = time.Now()
		}
		r.Tell(w, placed)
		if err != nil && ctx.Err() == nil {
			p.log.Debug("a session goes on waiting for a host", "session", w.Name.String(), "err", err)
		}
	}
}

// listing is a list of the hosts that is made again when it is old.
type listing struct {
	fleet Fleet
	hosts []fleet.Host
	at    time.Time
}

func (l *listing) recent(ctx context.Context) ([]fleet.Host, error) {
	if time.Since(l.at) <= listedFor {
		return l.hosts, nil
	}
	ctx, cancel := context.WithTimeout(ctx, placeWithin)
	defer cancel()
	hosts, err := l.fleet.Hosts(ctx)
	if err == nil {
		l.hosts, l.at = hosts, time.Now()
	}
	return hosts, err
}

// place brings one session to a host. One that doesn't wait any more counts as placed.
func (p *placer) place(ctx context.Context, w queue.Waiting, hosts []fleet.Host, tier scheduler.Prospect) (placed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, placeWithin)
	defer cancel()
	v, err := p.sessions.records.Get(ctx, w.Name)
	if err != nil {
		return false, err
	}
	if v.UID != w.UID || !v.Queued() {
		return true, nil
	}
	at, err := p.find(ctx, v, hosts, tier)
	if err != nil {
		return false, err
	}
	defer at.release(statekv.Revision{})
	op := *v.Op
	op.Unplaced, op.Only, op.Deadline = false, "", time.Now().Add(schemas.OpTimeout).UTC()
	by := request{by: Caller{Identity: p.actor, Trace: op.Trace}}
	next, err := p.sessions.ask(ctx, v, by, schemas.Transition{Type: schemas.TMoved, Reason: fmt.Sprintf("host %s has room for it", at.host), Set: schemas.Set{Host: at.host, Op: &op}})
	if errors.Is(err, statekv.ErrConflict) || errors.Is(err, session.ErrIllegal) {
		return false, err // it was labelled or removed just now: it is looked at again
	}
	if next.Host == at.host {
		at.release(next.Rev)
		delete(p.slow, at.host)
	}
	return err == nil, err
}

// find finds a host of a prospect. One that takes too long to make room is asked for that again only after a while.
func (p *placer) find(ctx context.Context, v statekv.Versioned, hosts []fleet.Host, tier scheduler.Prospect) (room, error) {
	if tier == scheduler.Makes {
		limited, cancel := context.WithTimeout(ctx, leavesWithin)
		defer cancel()
		ctx = limited
	}
	at, err := p.rooms.now(ctx, p.rooms.hosts.wantQueued(v.SessionRecord), hosts, slices.Collect(maps.Keys(p.slow)), tier)
	if err != nil && at.host != "" && ctx.Err() != nil {
		p.slow[at.host] = time.Now()
	}
	return at, err
}

// tidy ends removals that were left half done.
func (p *placer) tidy(ctx context.Context) {
	for _, r := range p.sessions.board.withoutHost() {
		if !halfRemoved(r) {
			continue
		}
		v, err := p.sessions.records.Get(ctx, r.Name())
		if err == nil && halfRemoved(v.SessionRecord) {
			err = p.sessions.removed(ctx, v, p.actor)
		}
		if err != nil && ctx.Err() == nil {
			p.log.Warn("the record of a session that was removed says so only later", "session", r.Name().String(), "err", err)
		}
	}
}
