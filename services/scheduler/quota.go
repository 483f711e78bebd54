package scheduler

import (
	"fmt"
	"strings"
	"time"

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
	queue   []waiter              // woken, and the quota is full: first come, first served
	queued  map[*tracked]struct{} // those of the queue that are still to be woken, as far as is known
	stirred bool                  // there may be room now
	look    time.Duration         // not before that it is looked again whether room can be made
}

// waiter is a session that is to be resumed when its tenant's quota has room.
type waiter struct {
	t     *tracked
	since time.Time
	said  bool // that it has to wait
}

// free is how many sessions more may run.
func (h *tenancy) free(most int) int { return most - len(h.running) - len(h.waking) }

// waits reports whether a session is in the queue, and still to be woken.
func (h *tenancy) waits(t *tracked) bool {
	_, ok := h.queued[t]
	return ok
}

// full says that the quota is.
func (h *tenancy) full(most int) string {
	return fmt.Sprintf("it has %s running, its quota is %d", schemas.CountSessions(len(h.running)+len(h.waking)), most)
}

// push puts a session into the queue.
func (h *tenancy) push(t *tracked) {
	h.queue = append(h.queue, waiter{t: t, since: time.Now()})
	h.queued[t] = struct{}{}
	h.stirred = true
}

// quotas count what each tenant has running.
type quotas struct {
	policies Policies
	tenants  map[schemas.Tenant]*tenancy
	queues   map[schemas.Tenant]struct{} // those with sessions that wait
	awaited  int                         // wakes whose record hasn't been seen
}

func newQuotas(p Policies) *quotas {
	return &quotas{policies: p, tenants: map[schemas.Tenant]*tenancy{}, queues: map[schemas.Tenant]struct{}{}}
}

// of gives the tenancy of a session, which lasts until tidy drops it.
func (q *quotas) of(t *tracked) *tenancy {
	h := q.tenants[t.tenant()]
	if h == nil {
		h = &tenancy{waking: map[*tracked]struct{}{}, queued: map[*tracked]struct{}{}}
		q.tenants[schemas.Tenant(strings.Clone(string(t.tenant())))] = h
	}
	return h
}

// count has a session count against its tenant's quota, or no longer, as its record stands
// now.
func (q *quotas) count(t *tracked) {
	switch state := t.view.state(); {
	case state == schemas.Starting, state == schemas.Running, state == schemas.Suspending, state == schemas.Resuming, movingTo(t) != "":
		if t.rank == nowhere {
			h := q.of(t)
			q.shown(h, t)
			t.rank = int32(len(h.running))
			h.running = append(h.running, t)
		}
	default:
		q.uncount(t)
	}
}

// await counts a wake until its record is seen; shown ends that.
func (q *quotas) await(t *tracked) {
	h := q.of(t)
	if _, again := h.waking[t]; !again {
		h.waking[t] = struct{}{}
		q.awaited++
	}
}

func (q *quotas) shown(h *tenancy, t *tracked) {
	if _, ok := h.waking[t]; ok {
		delete(h.waking, t)
		q.awaited--
	}
}

// unawait ends the count of a wake whose record isn't coming.
func (q *quotas) unawait(t *tracked) {
	if h := q.tenants[t.tenant()]; h != nil {
		q.shown(h, t)
		q.tidy(t.tenant(), h)
	}
}

func (q *quotas) uncount(t *tracked) {
	if t.rank == nowhere && q.awaited == 0 {
		return // as nearly all of a million, at a start
	}
	h := q.tenants[t.tenant()]
	if h == nil {
		return
	}
	if !t.acting {
		q.shown(h, t)
	}
	if last := len(h.running) - 1; t.rank != nowhere {
		h.running[t.rank] = h.running[last]
		h.running[t.rank].rank = t.rank
		h.running[last] = nil
		h.running = h.running[:last]
		t.rank, h.stirred = nowhere, true
	}
	q.tidy(t.tenant(), h)
}

// tidy forgets a tenancy in which there is nothing.
func (q *quotas) tidy(t schemas.Tenant, h *tenancy) {
	if len(h.running)+len(h.waking)+len(h.queue) == 0 {
		delete(q.tenants, t)
		delete(q.queues, t)
	}
}

// most is how many sessions of a tenant may run; 0 is no limit.
func (q *quotas) most(t schemas.Tenant) int {
	if at, ok := q.policies.(bounded); ok {
		if most := at.Quota(t).Running; most != nil {
			return *most
		}
	}
	return 0
}

// admit reports whether a session that is to be woken may be: if not, it is put into its
// tenant's queue.
func (q *quotas) admit(t *tracked) bool {
	tenant := t.tenant()
	most, h := q.most(tenant), q.tenants[tenant]
	switch {
	case h == nil:
		return true // none of them runs, and the least quota is one
	case h.waits(t):
		return false // it is woken when its turn comes
	case most == 0, len(h.queue) == 0 && h.free(most) > 0:
		return true
	}
	h.push(t)
	q.queues[tenant] = struct{}{}
	return false
}

// withdraw has no room made for a session any more. It leaves the queue when its turn
// comes.
func (q *quotas) withdraw(t *tracked) {
	if h := q.tenants[t.tenant()]; h != nil && len(h.queue) > 0 {
		delete(h.queued, t)
	}
}

// stir has all queues looked at: the quotas may be others.
func (q *quotas) stir() {
	for tenant := range q.queues {
		q.tenants[tenant].stirred = true
	}
}

// clear empties all queues: another scheduler decides now.
func (q *quotas) clear() {
	for tenant := range q.queues {
		h := q.tenants[tenant]
		h.queue = nil
		clear(h.queued)
		q.tidy(tenant, h)
	}
	clear(q.queues)
}

// waiting counts the sessions that wait for a quota.
func (q *quotas) waiting() (n int) {
	for tenant := range q.queues {
		n += len(q.tenants[tenant].queued)
	}
	return n
}
