package worker_test

import (
	"testing"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/fake"
)

// What a capture warns of is in the record, each once, until the next capture.
func TestWarningsAreInTheRecord(t *testing.T) {
	b := newBench(t)
	b.run()
	said := []schemas.Warning{
		{Code: schemas.WarnConnection, Subject: "a to b", Text: "the connection a to b will be closed"},
		{Code: schemas.WarnHook, Subject: "true", Text: "hook"},
		{Code: schemas.WarnConnection, Subject: "a to b", Text: "the connection a to b will be closed on resume"},
	}
	b.fake.Script("Capture", fake.Step{Warnings: said})
	b.suspend(false)
	got := b.until("suspended", suspended).Warnings
	if len(got) != 2 || got[0].Text != said[2].Text || got[1].Text != said[1].Text || got[0].At.IsZero() {
		t.Errorf("the record has the warnings %+v", got)
	}
	b.resume()
	b.until("running", running)
	b.fake.Script("Capture", fake.Step{Warnings: said[1:2]})
	b.change(schemas.Transition{Type: schemas.TCheckpoint, Set: schemas.Set{Op: b.op(schemas.OpCheckpoint)}})
	if v := b.until("checkpointed", made(schemas.TCheckpointed)); len(v.Warnings) != 1 {
		t.Errorf("after a checkpoint the record has the warnings %+v", v.Warnings)
	}
	b.suspend(false)
	if v := b.until("suspended again", suspended); len(v.Warnings) > 0 {
		t.Errorf("after a suspend without warnings the record still has %+v", v.Warnings)
	}
	b.folded()
}
