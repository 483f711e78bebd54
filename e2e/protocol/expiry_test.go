package protocol_test

import (
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/scheduler"
)

// mortal has sessions run for so long in one go, and no longer.
type mortal time.Duration

var _ scheduler.Policies = mortal(0)

func (m mortal) For(r schemas.SessionRecord) session.Policy {
	p, _ := session.PolicyFor(r.Class, r.Idle)
	p.Life = time.Duration(m)
	return p
}

func (mortal) Changed() <-chan struct{} { return nil }

// The life of a session in one go is over while it is used all the time: it goes the way
// of an idle one, to an image that it comes back from when it is wanted.
func TestExpiryGoesTheWayOfIdling(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.sched.end(t)
	h.api.end(t)
	h.rules = mortal(2 * time.Second)
	h.beginServices()
	v := h.idle("work", grace)
	n := h.count(v.UID)
	var s statekv.Versioned
	for end := time.Now().Add(limit); s.State != schemas.Suspended || s.Op != nil; s = h.get("work") {
		if time.Now().After(end) {
			t.Fatalf("it is %s", s.State)
		}
		h.say("work", schemas.KindHeartbeat, "", schemas.Activity{}) // counts, and wakes nothing
		time.Sleep(grace / 4)
	}
	if why := h.first("work", schemas.TSuspend).Transition; !strings.Contains(why.Reason, "expired") || s.Head == nil {
		t.Errorf("it was suspended for %q, head %v", why.Reason, s.Head)
	}
	h.do("ensure", schemas.Request{Name: "work"})
	if m := h.count(v.UID); m <= n {
		t.Errorf("it counted to %d, and goes on with %d", n, m)
	}
	h.audited()
}
