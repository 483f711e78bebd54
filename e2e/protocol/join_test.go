package protocol_test

import (
	"testing"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/fake"
)

// Who asks for a suspend while an idle one is under way gets it, though activity
// undoes the idle one: that counts against idleness, not against being asked.
func TestSuspendJoinsAnIdleOneThatIsUndone(t *testing.T) {
	h := start(t)
	h.run("work")
	entered, release := make(chan struct{}, 1), make(chan struct{})
	h.fake.Script("Capture", fake.Step{Entered: entered, Block: release})
	n := h.get("work").Name()
	_, err := h.records.Update(h.ctx, n, func(schemas.SessionRecord) (schemas.Transition, bool, error) {
		return schemas.Transition{Type: schemas.TIdleRule, Actor: "test", Set: schemas.Set{Idle: &schemas.Idle{Grace: 1}}}, true, nil
	})
	h.must(err)
	<-entered
	answer := make(chan error, 1)
	go func() {
		var out any
		answer <- h.ask("suspend", schemas.Request{Name: "work"}, &out)
	}()
	// It has joined when the rule says never and the activity comes; or it comes
	// later, and there is nothing to join.
	_, err = h.records.Update(h.ctx, n, func(schemas.SessionRecord) (schemas.Transition, bool, error) {
		return schemas.Transition{Type: schemas.TIdleRule, Actor: "test", Set: schemas.Set{Idle: &schemas.Idle{Never: true}}}, true, nil
	})
	h.must(err)
	_, err = stream.Publisher{JS: h.js}.Activity(h.ctx, n, schemas.KindHeartbeat, "", schemas.Activity{})
	h.must(err)
	if err := <-answer; err != nil {
		t.Errorf("suspend: %v", err)
	}
	h.until("work", "suspended", func(v statekv.Versioned) bool { return v.State == schemas.Suspended && v.Op == nil })
	close(release)
}
