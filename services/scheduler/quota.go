package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// bounded is what gives quotas that were set; *policykv.Cache does.
type bounded interface {
	Quota(t schemas.Tenant) schemas.Quota
}

// tenancy is a tenant with sessions that run, or that are to.
type tenancy struct {
	running []*tracked            // its sessions that count against its quota of running ones
	waking  map[*tracked]struct{} // wakes under way, of sessions whose record doesn't show it yet
	line    []wish                // woken, and the quota is full: first come, first served
	inLine  map[*tracked]struct{} // those of the line that are still to be woken, as far as is known
	stirred bool                  // there may be room now
	look    time.Duration         // not before that it is looked again whether room can be made
}

// wish is a session that is to be resumed.
type wish struct {
	t     *tracked
	since time.Time
	said  bool // that it has to wait
}

// eventWaiting says that a session is to be resumed, and that its tenant's quota has no
// room for it.
const eventWaiting = "waiting"

func (t *tracked) tenant() schemas.Tenant {
	tenant, _, _ := strings.Cut(t.key, ".")
	return schemas.Tenant(tenant)
}

// tenancyOf gives the tenancy of a session, which lasts until idle drops it.
func (l *loop) tenancyOf(t *tracked) *tenancy {
	h := l.tenancies[t.tenant()]
	if h == nil {
		h = &tenancy{waking: map[*tracked]struct{}{}, inLine: map[*tracked]struct{}{}}
		l.tenancies[schemas.Tenant(strings.Clone(string(t.tenant())))] = h
	}
	return h
}

// countRunning has a session count against its tenant's quota, or no longer, as its record
// stands now.
func (l *loop) countRunning(t *tracked) {
	switch t.view.state() {
	case schemas.Starting, schemas.Running, schemas.Suspending, schemas.Resuming:
		if t.bed == nowhere {
			h := l.tenancyOf(t)
			l.shown(h, t)
			t.bed = int32(len(h.running))
			h.running = append(h.running, t)
		}
	default:
		l.uncountRunning(t)
	}
}

// await counts a wake until its record is seen, shown ends that.
func (l *loop) await(t *tracked) {
	h := l.tenancyOf(t)
	if _, again := h.waking[t]; !again {
		h.waking[t] = struct{}{}
		l.awaited++
	}
}

func (l *loop) shown(h *tenancy, t *tracked) {
	if _, ok := h.waking[t]; ok {
		delete(h.waking, t)
		l.awaited--
	}
}

func (l *loop) uncountRunning(t *tracked) {
	if t.bed == nowhere && l.awaited == 0 {
		return // as nearly all of a million, at a start
	}
	h := l.tenancies[t.tenant()]
	if h == nil {
		return
	}
	if !t.acting {
		l.shown(h, t)
	}
	if last := len(h.running) - 1; t.bed != nowhere {
		h.running[t.bed] = h.running[last]
		h.running[t.bed].bed = t.bed
		h.running[last] = nil
		h.running = h.running[:last]
		t.bed, h.stirred = nowhere, true
	}
	l.idle(t.tenant(), h)
}

// idle forgets a tenancy in which there is nothing.
func (l *loop) idle(t schemas.Tenant, h *tenancy) {
	if len(h.running)+len(h.waking)+len(h.line) == 0 {
		delete(l.tenancies, t)
		delete(l.lines, t)
	}
}

// mostRunning is how many sessions of a tenant may run; 0 is no limit.
func (l *loop) mostRunning(t schemas.Tenant) int {
	if at, ok := l.s.Policies.(bounded); ok {
		if most := at.Quota(t).Running; most != nil {
			return *most
		}
	}
	return 0
}

// free is how many sessions more may run.
func (h *tenancy) free(most int) int { return most - len(h.running) - len(h.waking) }

// mayRun reports whether a session that is to be woken may be: else it is in line.
func (l *loop) mayRun(t *tracked) bool {
	tenant := t.tenant()
	most, h := l.mostRunning(tenant), l.tenancies[tenant]
	switch {
	case h == nil:
		return true // none of them runs, and the least quota is one
	case h.waits(t):
		return false // serve has it woken when its turn comes
	case most == 0, len(h.line) == 0 && h.free(most) > 0:
		return true
	}
	h.line = append(h.line, wish{t: t, since: time.Now()})
	h.inLine[t] = struct{}{}
	h.stirred = true
	l.lines[tenant] = struct{}{}
	return false
}

// serveLines goes through the tenants of whom sessions are to be woken that their quota has
// no room for.
func (l *loop) serveLines(ctx context.Context) {
	for tenant := range l.lines {
		if h := l.tenancies[tenant]; h.stirred || l.now() >= h.look {
			l.serve(ctx, tenant, h)
		}
	}
}

// serve has those woken that there is room for now, and room made for the others: within
// the tenant, by what matters least, as on a host that is full.
func (l *loop) serve(ctx context.Context, tenant schemas.Tenant, h *tenancy) {
	most := l.mostRunning(tenant)
	for len(h.line) > 0 && l.waking < actorsAtOnce {
		t := h.line[0].t
		d, wakes := l.wakes(t)
		if wakes && most > 0 && h.free(most) <= 0 {
			break
		}
		h.line = slices.Delete(h.line, 0, 1)
		delete(h.inLine, t)
		if wakes {
			l.begin(ctx, t, d)
		} else if l.sessions[t.key] == t {
			l.touch(t)
		}
	}
	h.stirred = l.waking >= actorsAtOnce
	if len(h.line) == 0 {
		delete(l.lines, tenant)
		l.idle(tenant, h)
		return
	}
	if now := l.now(); most > 0 && now >= h.look && l.abreast() {
		h.look = now + pressEvery
		l.makeWay(ctx, tenant, h, most)
	}
}

// wakes reports whether a session is still to be woken.
func (l *loop) wakes(t *tracked) (session.Decision, bool) {
	if l.sessions[t.key] != t || t.acting || t.view.uid == "" {
		return session.Decision{}, false
	}
	v := l.view(t)
	d := session.Decide(&v, l.policy(&v), time.Now())
	return d, d.Verdict == session.Wake
}

// makeWay has as many sessions suspended as have to be, if they may, and says of those in
// line for whom there are none that they wait.
func (l *loop) makeWay(ctx context.Context, tenant schemas.Tenant, h *tenancy, most int) {
	seats := l.reachable(h)
	need := len(h.inLine) - h.free(most) - leaving(seats)
	for n := 0; need > 0; n, need = n+1, need-1 {
		if n == wayAtOnce {
			return // more of them in a while
		}
		t, d, ok := l.least(seats, h.line[0].since.Add(patience))
		if !ok {
			break
		}
		l.press(ctx, t, d, schemas.PauseQuota, fmt.Sprintf("tenant %s makes room for %s, %s", tenant, h.line[0].t.name(), h.full(most)))
	}
	why := sync.OnceValue(func() string { return l.inTheWay(tenant, h, most) })
	for i := len(h.line) - 1; need > 0 && i >= 0; i-- {
		if w := &h.line[i]; h.waits(w.t) {
			l.sayWaiting(ctx, w, why)
			need--
		}
	}
}

// reachable are a tenant's sessions that run, but for those of hosts that are most likely gone:
// they leave for nobody.
func (l *loop) reachable(h *tenancy) []*tracked {
	l.pace.unstick(l.now())
	return slices.DeleteFunc(slices.Clone(h.running), func(t *tracked) bool { return t.home == nil || t.home.stuck })
}

// wayAtOnce is how many sessions of one tenant have to make room at a time.
const wayAtOnce = 32

func (h *tenancy) waits(t *tracked) bool {
	_, ok := h.inLine[t]
	return ok
}

func (h *tenancy) full(most int) string {
	return fmt.Sprintf("it has %s running, its quota is %d", schemas.CountSessions(len(h.running)+len(h.waking)), most)
}

// sayWaiting publishes, once, that a session is to be resumed and has to wait.
func (l *loop) sayWaiting(ctx context.Context, w *wish, why func() string) {
	bus, ok := l.s.Bus.(announcer)
	if !ok || w.said || l.telling >= tellAtOnce {
		return
	}
	w.said = true
	n := w.t.name()
	e := schemas.Event{
		Type: eventWaiting, Tenant: n.Tenant, Session: n.Session, UID: w.t.view.uid, Actor: l.s.Actor, At: time.Now(),
		Text: fmt.Sprintf("%s is used, and can't be resumed yet: %s", n, why()),
	}
	l.telling++
	l.acts.run(session.Notify, func() {
		if err := bus.Event(ctx, e); err != nil && ctx.Err() == nil {
			l.s.Log.Warn("it couldn't be said that a session waits for its tenant's quota", "session", n.String(), "err", err)
		}
		send(ctx, l.s.asks, func(l *loop) { l.telling-- })
	})
}

// inTheWay says why a tenant's sessions can't make room.
func (l *loop) inTheWay(tenant schemas.Tenant, h *tenancy, most int) string {
	because, _ := l.because(h.running[:min(len(h.running), 10*becauseAtMost)])
	return fmt.Sprintf("of tenant %s, %s (%s); it is resumed as soon as one is suspended (`diapause suspend`), or the quota is raised (`diapause policy set tenant:%s quota=running:%d`)",
		tenant, h.full(most), strings.Join(because, "; "), tenant, most+1)
}

// awaits says what a session that is to be woken waits for; ok is false if for nothing. Who
// stands by has nobody in line, and knows as well that there is no room.
func (l *loop) awaits(t *tracked) (what string, ok bool) {
	h, most := l.tenancies[t.tenant()], l.mostRunning(t.tenant())
	if h == nil || most == 0 || !h.waits(t) && h.free(most) > 0 {
		return "", false
	}
	return l.inTheWay(t.tenant(), h, most), true
}

// outOfLine has nobody make room for a session any more. Its wish goes when its turn comes.
func (l *loop) outOfLine(t *tracked) {
	if h := l.tenancies[t.tenant()]; h != nil && len(h.line) > 0 {
		delete(h.inLine, t)
	}
}

// disband forgets who is in line: another scheduler decides now.
func (l *loop) disband() {
	for tenant := range l.lines {
		h := l.tenancies[tenant]
		h.line = nil
		clear(h.inLine)
		l.idle(tenant, h)
	}
	clear(l.lines)
}
