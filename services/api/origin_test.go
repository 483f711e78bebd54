package api

import (
	"testing"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// The log says who had a snapshot made, why, and how often the session came back from it:
// a resume that was recorded and never ran doesn't count.
func TestOriginsOfSnapshots(t *testing.T) {
	one, two := schemas.Head{Name: "acme/u/snaps/1-1", Digest: "a"}, schemas.Head{Name: "acme/u/snaps/2-2", Digest: "b"}
	op := func(id, kind string, source *schemas.Head) schemas.Set {
		return schemas.Set{Op: &schemas.Op{ID: id, Kind: kind, Source: source}}
	}
	var revs []statekv.Versioned
	var r schemas.SessionRecord
	for _, step := range []schemas.Transition{
		{Type: schemas.TRun, Set: schemas.Set{New: &schemas.NewSession{UID: "u", Tenant: "acme", Session: "s", Lineage: "u"}, Host: "h", Op: &schemas.Op{ID: "1", Kind: schemas.OpStart}}},
		{Type: schemas.TStarted, Op: "1"},
		{Type: schemas.TCheckpoint, Actor: "agent:coder", Reason: "an agent says run_start", Set: op("2", schemas.OpCheckpoint, nil)},
		{Type: schemas.TCheckpointed, Op: "2", Actor: "worker@h", Set: schemas.Set{Head: &one}},
		{Type: schemas.TSuspend, Actor: "scheduler", Reason: "idle", Set: op("3", schemas.OpSuspend, nil)},
		{Type: schemas.TSuspended, Op: "3", Actor: "worker@h", Set: schemas.Set{Head: &two, Op: &schemas.Op{ID: "3", Kind: schemas.OpReap}}},
		{Type: schemas.TReaped, Op: "3"},
		{Type: schemas.TResume, Actor: "cli", Set: op("4", schemas.OpResume, &one)},
		{Type: schemas.TResumed, Op: "4"},
		{Type: schemas.TResumeAgain, Set: op("5", schemas.OpResume, &one)},
		{Type: schemas.TResumed, Op: "5"},
		{Type: schemas.TSuspend, Set: op("6", schemas.OpSuspend, nil)},
		{Type: schemas.TSuspendAborted, Op: "6"},
	} {
		var err error
		if r, err = session.Apply(r, step); err != nil {
			t.Fatalf("%s: %v", step.Type, err)
		}
		revs = append(revs, statekv.Versioned{SessionRecord: r})
	}
	got := originsIn(revs)
	if want := (origin{by: "agent:coder", reason: "an agent says run_start", restores: 1}); got[one] != want {
		t.Errorf("of the first the log says %+v, want %+v", got[one], want)
	}
	if want := (origin{by: "scheduler", reason: "idle"}); got[two] != want {
		t.Errorf("of the second the log says %+v, want %+v", got[two], want)
	}
}
