package queue

import (
	"testing"

	"github.com/diapause/diapause/schemas"
)

func TestKindOf(t *testing.T) {
	plain := schemas.SessionRecord{Driver: "criu", Needs: []schemas.Feature{schemas.FeatureMove}}
	recorded := plain
	recorded.Needs = []schemas.Feature{schemas.FeatureRecording, schemas.FeatureMove}
	if KindOf(plain) != KindOf(recorded) {
		t.Error("a terminal that is recorded waits in a line of its own")
	}
	placed := plain
	placed.Placement = &schemas.Placement{Labels: map[string]string{"gpu": "yes"}}
	if KindOf(plain) == KindOf(placed) {
		t.Error("what needs other hosts waits in the same line")
	}
	if recorded.Needs[0] != schemas.FeatureRecording {
		t.Error("the record was changed")
	}
}
