package api

import (
	"errors"
	"testing"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// What another request did to the name since it was found free is refused when the template is made: one that is there stays, and one
// that is being removed is removed to its end, keys included.
func TestTemplateNamesTakenMeanwhile(t *testing.T) {
	y := newYard(t)
	n, err := schemas.ParseTemplate("py")
	y.must(err)
	head := &schemas.Head{Name: "default/u/snaps/1-1"}
	work := statekv.Versioned{SessionRecord: schemas.SessionRecord{UID: "u", Tenant: "default", Session: "work", Lineage: "u", Driver: "criu", State: schemas.Suspended, Head: head}}
	s, _ := y.api("h")
	ts := &templates{makes: &maker{records: y.records, sessions: s.archives.sessions}, board: s.board}
	create := func() *schemas.APIError {
		t.Helper()
		_, refused, err := ts.makeOn(y.ctx, "h", n, request{by: operator}, "make template py", like(work.SessionRecord), work)
		var got *schemas.APIError
		if refused || !errors.As(err, &got) {
			t.Fatalf("refused by its host %v: %v", refused, err)
		}
		return got
	}
	v := statekv.Versioned{}
	swap := func(tr schemas.Transition) {
		t.Helper()
		tr.Actor, tr.Reason = "a test", "a test"
		v, err = y.records.Swap(y.ctx, v, tr)
		y.must(err)
	}
	swap(schemas.Transition{Type: schemas.TTemplate, Set: schemas.Set{Op: &schemas.Op{ID: "r", Kind: schemas.OpRewrite, Source: head}, New: &schemas.NewSession{
		UID: "uid-py", Tenant: n.Tenant, Session: n.Session, Class: "web", Lineage: "uid-py",
	}}})
	if got := create(); got.Reason != schemas.ReasonBusy {
		t.Errorf("being made: %+v", got)
	}
	swap(schemas.Transition{Type: schemas.TRewritten, Set: schemas.Set{Head: head}})
	if got := create(); got.Reason != schemas.ReasonExists {
		t.Errorf("made: %+v", got)
	}
	swap(schemas.Transition{Type: schemas.TRemove, Set: schemas.Set{Op: &schemas.Op{ID: "s", Kind: schemas.OpRemove, Shred: true}}})
	if got := create(); got.Reason != schemas.ReasonBusy {
		t.Errorf("being removed: %+v", got)
	}
	// The host may have removed it by now.
	if now, err := y.records.Get(y.ctx, n); err != nil || now.UID != v.UID || now.Op == nil && now.State != schemas.Deleted {
		t.Errorf("its removal is %s %s, %v", now.UID, now.State, err)
	}
}
