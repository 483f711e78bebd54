package worker_test

import (
	"testing"

	"github.com/diapause/diapause/schemas"
)

// A suspended session of which every record is lost, in NATS and on all hosts, comes back
// from its image alone: its spec and its own policy are in that.
func TestAllRecordsLost(t *testing.T) {
	b := newBench(t)
	_, stop := b.serve(b.remembering(t.TempDir()))
	b.asked("count")
	v := b.until("running", running)
	n := b.count(v.UID)
	b.change(schemas.Transition{Type: schemas.TIdleRule, Set: schemas.Set{Idle: &schemas.Idle{Grace: 77_000}}})
	b.suspend(false)
	b.until("suspended", suspended)
	b.must(stop())
	b.loseLog()

	w := b.remembering(t.TempDir()) // nothing was remembered here
	got, err := w.Regain(b.ctx, true, nil, waitsForNone(t))
	b.must(err)
	if len(got.Sessions) != 1 {
		t.Fatalf("it recovers %+v", got)
	}
	_, stop = b.serve(w)
	now := b.until("recovered", suspended)
	if now.UID != v.UID || now.Spec != v.Spec || now.Class != v.Class || now.Idle == nil || now.Idle.Grace != 77_000 {
		t.Errorf("recovered as %+v", now)
	}
	b.resume()
	b.until("running", running)
	if m := b.count(v.UID); m != n+1 {
		t.Errorf("it counted to %d, and goes on with %d", n, m)
	}
	b.folded()
	b.must(stop())
}
