package scheduler

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// late is Records that answer when they are told to, and then that another was quicker.
type late struct {
	Records
	answer chan struct{}
}

func (r late) Get(context.Context, schemas.Name) (statekv.Versioned, error) {
	<-r.answer
	return statekv.Versioned{}, statekv.ErrConflict
}

// Sessions that wait for their turn to be woken, and are woken by another until
// then, hold up none: neither those behind them nor their own next turn.
func TestBacklogOfOthers(t *testing.T) {
	const sessions = 5 * actorsAtOnce
	answer := make(chan struct{})
	l := newLoop(New(Options{Records: late{answer: answer}, Bus: talk{}}))
	ctx, cancel := context.WithCancel(t.Context())
	defer l.actor.acts.wait()
	defer cancel()
	l.hear(&stream.Heard{CaughtUp: true})
	l.turn(ctx)
	use := func(id string, seq uint64) {
		src := schemas.Source{Name: schemas.Name{Tenant: "acme", Session: schemas.SessionID(id)}, Kind: schemas.KindHTTP}
		l.listen(&session.Message{Source: src, Seq: seq, At: time.Now()})
	}
	for i := range sessions {
		seen(l, "a", fmt.Sprint("s", i), schemas.Suspended, nil, "person")
		use(fmt.Sprint("s", i), uint64(i+1))
	}
	l.turn(ctx)
	if l.actor.waking != actorsAtOnce || len(l.agenda.backlog) != sessions-actorsAtOnce {
		t.Fatalf("%d are woken and %d wait", l.actor.waking, len(l.agenda.backlog))
	}
	for i := range sessions { // the client that used them has resumed them, too
		seen(l, "a", fmt.Sprint("s", i), schemas.Running, nil, "person")
	}
	close(answer)
	for range actorsAtOnce {
		l.done(<-l.actor.acted)
		l.turn(ctx)
	}
	for i := 0; len(l.agenda.fresh) > 0 && i < sessions; i++ {
		l.turn(ctx)
	}
	if l.actor.waking != 0 || len(l.agenda.backlog) != 0 {
		t.Errorf("%d are woken and %d wait, for ever", l.actor.waking, len(l.agenda.backlog))
	}
	for _, s := range l.table.sessions {
		if _, ok := l.agenda.queue.at(s); !ok {
			t.Fatalf("when session %s is idle is never looked", s.key)
		}
	}
}
