package scheduler

import (
	"strings"
	"testing"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// Activity starts a session in place of an image that is proven to be of no use, if the whole record allows it: what was
// decided on is a part of it.
func TestFreshTransition(t *testing.T) {
	r := schemas.SessionRecord{
		Tenant: "default", Session: "web", Lineage: "lin", State: schemas.Suspended, Driver: "new", Keeps: schemas.KeepsMemory, Head: &schemas.Head{Name: "default/lin/snaps/1-2"},
		Failure: &schemas.Failure{Op: schemas.OpResume, Cause: schemas.CauseDamaged},
	}
	d := session.Decision{Verdict: session.Wake, Fresh: schemas.CauseDamaged, Reason: "activity: http; its snapshot is damaged", Evidence: schemas.Evidence{Seq: 7}}
	got := transition(r, d)
	if got.Type != schemas.TRestart || got.Set.Op.Kind != schemas.OpStart || got.Set.Op.Boot != schemas.BootClean || !got.Set.Op.Back || got.Set.Op.Seq != 7 ||
		got.Set.Op.Notice == nil || got.Op != got.Set.Op.ID || !strings.Contains(got.Reason, "damaged") || got.Evidence.Seq != 7 {
		t.Errorf("%+v, op %+v", got, got.Set.Op)
	}
	for what, change := range map[string]func(*schemas.SessionRecord){
		"its own word is keep": func(r *schemas.SessionRecord) { r.OnResume = schemas.ResumeKeep },
		"it is a fork":         func(r *schemas.SessionRecord) { r.Lineage = "other" },
		"a person has to look": func(r *schemas.SessionRecord) {
			r.Notice = &schemas.Notice{Kept: make([]schemas.Head, schemas.MaxKept)}
		},
		"it failed again by now": func(r *schemas.SessionRecord) { r.Failure = &schemas.Failure{Op: schemas.OpResume} },
		"it has another cause": func(r *schemas.SessionRecord) {
			r.Failure = &schemas.Failure{Op: schemas.OpResume, Cause: schemas.CauseMissing}
		},
		"nothing is wrong by now": func(r *schemas.SessionRecord) { r.Failure = nil },
	} {
		other := r
		change(&other)
		if got := transition(other, d); got.Type != schemas.TResume || got.Set.Op.Kind != schemas.OpResume || got.Set.Op.Source != other.Head {
			t.Errorf("%s: %s, op %+v", what, got.Type, got.Set.Op)
		}
	}
}
