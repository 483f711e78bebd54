package session

import (
	"testing"

	"github.com/diapause/diapause/schemas"
)

// The record keeps the last trigger that a checkpoint was started for, also if it failed:
// another session of the name has none.
func TestTriggered(t *testing.T) {
	r := schemas.SessionRecord{}
	do := func(kind schemas.TransitionType, set schemas.Set) {
		t.Helper()
		next, err := Apply(r, schemas.Transition{Type: kind, Set: set})
		if err != nil {
			t.Fatal(err)
		}
		r = next
	}
	fresh := schemas.Set{New: &schemas.NewSession{UID: "u"}, Op: &schemas.Op{ID: "o"}}
	do(schemas.TRun, fresh)
	do(schemas.TStarted, schemas.Set{})
	do(schemas.TCheckpoint, schemas.Set{Op: &schemas.Op{TriggerSeq: 7}})
	do(schemas.TCheckpointFailed, schemas.Set{})
	if r.Triggered != 7 {
		t.Errorf("after a checkpoint that failed: %d, want 7", r.Triggered)
	}
	do(schemas.TCheckpoint, schemas.Set{Op: &schemas.Op{TriggerSeq: 5}})
	do(schemas.TCheckpointed, schemas.Set{})
	do(schemas.TCheckpoint, schemas.Set{Op: &schemas.Op{}}) // asked for by a person
	do(schemas.TCheckpointed, schemas.Set{})
	if r.Triggered != 7 {
		t.Errorf("it went to %d, want 7", r.Triggered)
	}
	do(schemas.TRemove, schemas.Set{Op: &schemas.Op{}})
	do(schemas.TRemoved, schemas.Set{})
	do(schemas.TRun, fresh)
	if r.Triggered != 0 {
		t.Errorf("another session begins with %d", r.Triggered)
	}
}
