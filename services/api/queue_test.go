package api

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// explainer is a scheduler that knows every session.
type explainer struct{}

func (explainer) Explain(_ context.Context, n schemas.Name) (schemas.Explanation, bool, error) {
	return schemas.Explanation{Name: n.String(), Blockers: []schemas.WaitingFor{}}, true, nil
}

func (explainer) Idle(context.Context) (map[schemas.Name]time.Duration, error) { return nil, nil }

// An operation that waits for others of its host is shown with its place, in either
// direction. What a host says of a session without an operation counts no more.
func TestPlaceInTheQueueIsShown(t *testing.T) {
	b := newBench(t)
	b.server.look.scheduler = explainer{}
	place := schemas.QueuePlace{Place: 2, Of: 5, Limit: "memory=1G"}
	answer, err := json.Marshal(map[schemas.UID]schemas.Observed{"u": {PID: 7, Queue: &place}})
	b.must(err)
	_, err = b.nc.Subscribe(schemas.SubjectHost+".h.observe", func(m *nats.Msg) { _ = m.Respond(answer) })
	b.must(err)
	want := func(when string, waits bool, pid int) {
		t.Helper()
		got, err := b.server.Call(b.ctx, ann, "show", schemas.Request{Name: agent.String()})
		b.must(err)
		if v := got.(schemas.View); (v.Queue != nil) != waits || waits && *v.Queue != place || v.PID != pid {
			t.Errorf("%s: shown with the place %v and pid %d", when, v.Queue, v.PID)
		}
		got, err = b.server.Call(b.ctx, ann, "explain", schemas.Request{Name: agent.String()})
		b.must(err)
		blockers := got.(schemas.Explanation).Blockers
		if len(blockers) > 0 != waits {
			t.Errorf("%s: explained by %+v", when, blockers)
		}
		for _, w := range blockers {
			if w.Kind != schemas.WaitingQueue || w.Subject != "memory=1G" {
				t.Errorf("%s: explained by %+v", when, w)
			}
		}
	}
	v := b.running()
	want("before", false, 7)
	v = b.swap(v, schemas.TSuspend, schemas.Set{Op: &schemas.Op{ID: "o2", Kind: schemas.OpSuspend}})
	want("while it is to be suspended", true, 7)
	v = b.swap(v, schemas.TSuspended, schemas.Set{Head: &schemas.Head{Name: "acme/u/1-1"}})
	want("suspended", false, 0)
	v, err = b.records.Swap(b.ctx, v, schemas.Transition{Type: schemas.TResume, Actor: "test", Op: "o3", Set: schemas.Set{Host: "h", Op: &schemas.Op{ID: "o3", Kind: schemas.OpResume}}})
	b.must(err)
	want("while it is to be resumed", true, 0)
	b.swap(v, schemas.TResumed, schemas.Set{})
	want("resumed", false, 7)
}

// A host of which a session didn't leave in time is asked for room again as soon as that one has left, or stays.
func TestSlowHostIsAskedAgain(t *testing.T) {
	r := schemas.SessionRecord{UID: "u", Tenant: "acme", Session: "web", Host: "h"}
	op := func(kind string) *schemas.Op { return &schemas.Op{ID: "o", Kind: kind} }
	for _, c := range []struct {
		what  string
		state schemas.State
		op    *schemas.Op
		host  schemas.HostID
		after time.Duration
		slow  bool
	}{
		{"it is being suspended", schemas.Suspending, op(schemas.OpSuspend), "h", 0, true},
		{"its frozen processes are there", schemas.Suspended, op(schemas.OpSuspend), "h", time.Minute, true},
		{"it is being ended", schemas.Running, op(schemas.OpKill), "h", 0, true},
		{"it is being removed", schemas.Deleted, op(schemas.OpRemove), "h", 0, true},
		{"it never leaves", schemas.Suspending, op(schemas.OpSuspend), "h", slowFor + 1, false},
		{"it has left", schemas.Suspended, nil, "h", 0, false},
		{"it runs on", schemas.Running, nil, "h", 0, false},
		{"another one has come", schemas.Resuming, op(schemas.OpResume), "h", 0, false},
		{"one leaves another host", schemas.Suspending, op(schemas.OpSuspend), "b", 0, false},
	} {
		b, now := newBoard(), time.Now()
		r.State, r.Op, r.Host = c.state, c.op, c.host
		b.put(statekv.Versioned{SessionRecord: r})
		p := &placer{sessions: &sessions{board: b}, slow: map[schemas.HostID]time.Time{"h": now}}
		p.slowNoMore(now.Add(c.after))
		if _, slow := p.slow["h"]; slow != c.slow {
			t.Errorf("%s: no other is evicted there: %t", c.what, slow)
		}
	}
}
