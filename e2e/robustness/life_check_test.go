package robustness_test

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

// did is one operation of a history that is written by hand.
func did(call, end int64, in input, out output) porcupine.Operation {
	in.Session, in.Strict = "work", true
	return porcupine.Operation{Call: call, Return: end, Input: in, Output: out}
}

func counts(at int64, n int) porcupine.Operation {
	return did(at, at+1, input{Verb: opCount}, output{Outcome: ok, UID: "u", Count: n})
}

func does(at int64, verb string) porcupine.Operation {
	return did(at, at+1, input{Verb: verb}, output{Outcome: ok, UID: "u"})
}

// The model takes what may happen, and nothing else.
func TestModel(t *testing.T) {
	checkpoint := did(30, 31, input{Verb: opCheckpoint}, output{Outcome: ok, UID: "u", Snapshot: "a"})
	rollback := input{Verb: opRollback, Snapshot: "a"}
	lost := output{Outcome: unknown}
	for name, c := range map[string]struct {
		good    bool
		history []porcupine.Operation
	}{
		"it goes on after a suspend":               {true, []porcupine.Operation{does(0, opRun), counts(10, 1), does(20, opSuspend), does(30, opEnsure), counts(40, 2)}},
		"a number is lost":                         {false, []porcupine.Operation{does(0, opRun), counts(10, 1), does(20, opSuspend), does(30, opEnsure), counts(40, 3)}},
		"a number comes twice":                     {false, []porcupine.Operation{does(0, opRun), counts(10, 1), does(20, opSuspend), does(30, opEnsure), counts(40, 1)}},
		"a rollback goes back":                     {true, []porcupine.Operation{does(0, opRun), counts(10, 1), checkpoint, counts(40, 2), did(50, 60, rollback, output{Outcome: ok, UID: "u"}), counts(70, 2)}},
		"a rollback doesn't go back":               {false, []porcupine.Operation{does(0, opRun), counts(10, 1), checkpoint, counts(40, 2), did(50, 60, rollback, output{Outcome: ok, UID: "u"}), counts(70, 3)}},
		"a lost rollback comes late":               {true, []porcupine.Operation{does(0, opRun), counts(10, 1), checkpoint, counts(40, 2), did(50, never, rollback, lost), counts(70, 3), counts(80, 2)}},
		"a lost rollback never comes":              {true, []porcupine.Operation{does(0, opRun), counts(10, 1), checkpoint, counts(40, 2), did(50, never, rollback, lost), counts(70, 3), counts(80, 4)}},
		"a lost rollback comes twice":              {false, []porcupine.Operation{does(0, opRun), counts(10, 1), checkpoint, counts(40, 2), did(50, never, rollback, lost), counts(70, 3), counts(80, 2), counts(90, 3), counts(100, 2)}},
		"a refused rollback happens":               {false, []porcupine.Operation{does(0, opRun), counts(10, 1), checkpoint, counts(40, 2), did(50, 60, rollback, output{Outcome: refused}), counts(70, 2)}},
		"it counts after a kill":                   {false, []porcupine.Operation{does(0, opRun), counts(10, 1), does(20, opKill), counts(40, 2)}},
		"a clean start counts from one":            {true, []porcupine.Operation{does(0, opRun), counts(10, 1), does(20, opKill), does(30, opClean), counts(40, 1)}},
		"two runs of one name":                     {false, []porcupine.Operation{does(0, opRun), does(20, opRun)}},
		"a session that was made is gone":          {false, []porcupine.Operation{does(0, opRun), did(20, 21, input{Verb: opShow}, output{Outcome: gone})}},
		"a removed session is shown":               {false, []porcupine.Operation{does(0, opRun), does(20, opRemove), did(40, 41, input{Verb: opShow}, output{Outcome: ok, UID: "u", State: "running"})}},
		"a run without an answer is seen":          {true, []porcupine.Operation{did(0, never, input{Verb: opRun}, lost), counts(10, 1), counts(20, 2)}},
		"a run without an answer, another session": {false, []porcupine.Operation{did(0, never, input{Verb: opRun}, lost), counts(10, 1), did(20, 21, input{Verb: opCount}, output{Outcome: ok, UID: "v", Count: 2})}},
		"a name is used again":                     {true, []porcupine.Operation{does(0, opRun), counts(5, 1), does(10, opRemove), did(20, 21, input{Verb: opRun}, output{Outcome: ok, UID: "v"}), did(30, 31, input{Verb: opCount}, output{Outcome: ok, UID: "v", Count: 1})}},
	} {
		wrong, _ := linearizable(c.history)
		if good := wrong == ""; good != c.good {
			t.Errorf("%s: taken %v, want %v", name, good, c.good)
		}
	}
}

// A session that counts when its remove has been answered is noticed beside the
// model.
func TestAfterlife(t *testing.T) {
	run, end := does(0, opRun), did(20, 30, input{Verb: opRemove}, output{Outcome: ok, UID: "u"})
	if got := afterlife([]porcupine.Operation{run, end, counts(25, 1)}); len(got) > 0 {
		t.Errorf("a count while it was removed: %v", got)
	}
	if got := afterlife([]porcupine.Operation{run, end, counts(40, 1)}); len(got) != 1 {
		t.Errorf("a count after it was removed: %v", got)
	}
}
