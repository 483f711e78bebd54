package scheduler

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// waker wakes sessions, as far as quotas and the number of wakes under way allow.
type waker struct {
	table   *table
	agenda  *agenda
	quotas  *quotas
	hosts   *hosts
	lag     *lag
	evictor *evictor
	actor   *actor
}

// wake carries out a verdict to wake. Of very many at once some wait, and are decided about
// again when their turn comes.
func (w *waker) wake(ctx context.Context, t *tracked, d session.Decision) {
	if !w.quotas.admit(t) {
		return
	}
	if w.actor.waking >= actorsAtOnce {
		w.agenda.postpone(t)
		return
	}
	w.begin(ctx, t, d)
}

// begin wakes a session.
func (w *waker) begin(ctx context.Context, t *tracked, d session.Decision) {
	w.actor.waking++
	w.quotas.await(t)
	w.actor.carryOut(ctx, t, d)
}

// serve goes through the queues of all tenants.
func (w *waker) serve(ctx context.Context) {
	for tenant := range w.quotas.queues {
		if h := w.quotas.tenants[tenant]; h.stirred || w.hosts.now() >= h.look {
			w.serveOne(ctx, tenant, h)
		}
	}
}

// serveOne wakes those of a tenant's queue that its quota has room for, and has room made
// for the others: by evicting what matters least of the same tenant.
func (w *waker) serveOne(ctx context.Context, tenant schemas.Tenant, h *tenancy) {
	most := w.quotas.most(tenant)
	for len(h.queue) > 0 && w.actor.waking < actorsAtOnce {
		t := h.queue[0].t
		d, wakes := w.wakes(t)
		if wakes && most > 0 && h.free(most) <= 0 {
			break
		}
		h.queue = slices.Delete(h.queue, 0, 1)
		delete(h.queued, t)
		if wakes {
			w.begin(ctx, t, d)
		} else if w.table.has(t) {
			w.agenda.touch(t)
		}
	}
	h.stirred = w.actor.waking >= actorsAtOnce
	if len(h.queue) == 0 {
		delete(w.quotas.queues, tenant)
		w.quotas.tidy(tenant, h)
		return
	}
	if now := w.hosts.now(); most > 0 && now >= h.look && w.lag.inTime() {
		h.look = now + recheckEvery
		w.makeWay(ctx, tenant, h, most)
	}
}

// wakes reports whether a session is still to be woken.
func (w *waker) wakes(t *tracked) (session.Decision, bool) {
	if !w.table.has(t) || t.acting || t.view.uid == "" {
		return session.Decision{}, false
	}
	v := w.table.view(t)
	d := session.Decide(&v, w.table.policy(&v), time.Now())
	return d, d.Verdict == session.Wake
}

// evictedAtOnce is how many sessions of one tenant are evicted for its quota at a time.
const evictedAtOnce = 32

// makeWay evicts enough of the tenant's idle sessions for those in its queue, and publishes
// of the others why they wait.
func (w *waker) makeWay(ctx context.Context, tenant schemas.Tenant, h *tenancy, most int) {
	running := w.hosts.reachable(h.running)
	need := len(h.queued) - h.free(most) - leaving(running)
	for n := 0; need > 0; n, need = n+1, need-1 {
		if n == evictedAtOnce {
			return // more of them in a while
		}
		t, d, ok := w.evictor.least(running, h.queue[0].since.Add(patience))
		if !ok {
			break
		}
		w.evictor.evict(ctx, t, d, schemas.PauseQuota, fmt.Sprintf("tenant %s makes room for %s, %s", tenant, h.queue[0].t.name(), h.full(most)))
	}
	why := sync.OnceValue(func() string { return w.inTheWay(tenant, h, most) })
	for i := len(h.queue) - 1; need > 0 && i >= 0; i-- {
		if one := &h.queue[i]; h.waits(one.t) {
			w.sayWaiting(ctx, one, why)
			need--
		}
	}
}

// eventWaiting says that a session is to be resumed, and that its tenant's quota has no
// room for it.
const eventWaiting = "waiting"

// sayWaiting publishes, once, that a session is to be resumed and has to wait.
func (w *waker) sayWaiting(ctx context.Context, one *waiter, why func() string) {
	if one.said || !w.actor.mayTell() {
		return
	}
	one.said = true
	n := one.t.name()
	e := schemas.Event{
		Type: eventWaiting, Tenant: n.Tenant, Session: n.Session, UID: one.t.view.uid, At: time.Now(),
		Text: fmt.Sprintf("%s is used, and can't be resumed yet: %s", n, why()),
	}
	w.actor.tell(ctx, e, func(*loop, error) {})
}

// inTheWay says why a tenant's sessions can't make room.
func (w *waker) inTheWay(tenant schemas.Tenant, h *tenancy, most int) string {
	because, _ := w.evictor.because(h.running[:min(len(h.running), 10*becauseAtMost)], false)
	return fmt.Sprintf("of tenant %s, %s (%s); it is resumed as soon as one is suspended (`diapause suspend`), or the quota is raised (`diapause policy set tenant:%s quota=running:%d`)",
		tenant, h.full(most), reasons(because, anyone), tenant, most+1)
}

// awaits says what a session that is to be woken waits for; ok is false if it waits for
// nothing. A scheduler that stands by has no queues, and still knows whether there is room.
func (w *waker) awaits(t *tracked) (what string, ok bool) {
	h, most := w.quotas.tenants[t.tenant()], w.quotas.most(t.tenant())
	if h == nil || most == 0 || !h.waits(t) && h.free(most) > 0 {
		return "", false
	}
	return w.inTheWay(t.tenant(), h, most), true
}
