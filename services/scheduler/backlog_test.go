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

// late is Records that answer when they are told to, and then that somebody was quicker.
type late struct {
	Records
	answer chan struct{}
}

func (r late) Get(context.Context, schemas.Name) (statekv.Versioned, error) {
	<-r.answer
	return statekv.Versioned{}, statekv.ErrConflict
}

// Sessions that wait for their turn to be woken, and are woken by somebody else until
// then, hold up nobody: neither those behind them nor their own next turn.
func TestBacklogOfOthers(t *testing.T) {
	const sessions = 5 * actorsAtOnce
	answer := make(chan struct{})
	l := newLoop(New(Options{Records: late{answer: answer}, Bus: talk{}}))
	ctx, cancel := context.WithCancel(t.Context())
	defer l.acts.wait()
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
	if l.waking != actorsAtOnce || len(l.backlog) != sessions-actorsAtOnce {
		t.Fatalf("%d are woken and %d wait", l.waking, len(l.backlog))
	}
	for i := range sessions { // whoever used them has resumed them, too
		seen(l, "a", fmt.Sprint("s", i), schemas.Running, nil, "person")
	}
	close(answer)
	for range actorsAtOnce {
		l.done(<-l.acted)
		l.turn(ctx)
	}
	for i := 0; len(l.fresh) > 0 && i < sessions; i++ {
		l.turn(ctx)
	}
	if l.waking != 0 || len(l.backlog) != 0 {
		t.Errorf("%d are woken and %d wait, for ever", l.waking, len(l.backlog))
	}
	for _, s := range l.sessions {
		if _, ok := l.queue.at(s); !ok {
			t.Fatalf("when session %s is idle is never looked", s.key)
		}
	}
}
