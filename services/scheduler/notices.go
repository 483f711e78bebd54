package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// The events that go before a suspend.
const (
	eventWarning  = "warning"
	eventQuestion = "question"
)

// notifier publishes that suspends are near.
type notifier struct {
	table  *table
	agenda *agenda
	actor  *actor
}

// notify publishes that a suspend is near. If that fails it is tried again in a while: the
// session isn't suspended before.
func (o *notifier) notify(ctx context.Context, t *tracked, v *session.View, d session.Decision) {
	if o.actor.telling >= tellAtOnce {
		o.agenda.later(t, actAgain) // until it is published nothing happens to it
		return
	}
	e := notice(v, d)
	v.Notified(e.At)
	o.table.repack(t, v)
	o.agenda.at(t, d.Next)
	uid := v.Record.UID
	o.actor.tell(ctx, e, func(_ *loop, err error) {
		if err != nil {
			o.unsaid(t, uid)
		}
	})
}

// unsaid takes back that a notice was published.
func (o *notifier) unsaid(t *tracked, uid schemas.UID) {
	if !o.table.has(t) || t.view.uid != uid {
		return
	}
	v := o.table.view(t)
	v.Notified(time.Time{})
	o.table.repack(t, &v)
	if o.agenda.open && !t.fresh {
		o.agenda.later(t, actAgain)
	}
}

func notice(v *session.View, d session.Decision) schemas.Event {
	n, now := v.Record.Name(), time.Now()
	e := schemas.Event{Type: eventWarning, Tenant: n.Tenant, Session: n.Session, UID: v.Record.UID, At: now, Until: d.Next}
	in := d.Next.Sub(now).Round(time.Second)
	e.Text = fmt.Sprintf("%s is suspended in %s unless it is used", n, in)
	if d.Asks {
		e.Type = eventQuestion
		e.Text = fmt.Sprintf("may %s be suspended? It is in %s, unless it is used or %s is published", n, in, schemas.ActivitySubject(n, schemas.KindHold, schemas.AnswerKey))
	}
	return e
}
