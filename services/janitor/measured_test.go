package janitor

import (
	"encoding/json"
	"testing"

	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
)

// After something of a session's images was deleted it is said what they still take; when
// nothing was, nothing is.
func TestMeasured(t *testing.T) {
	policy := Policy{Count: 2}
	h := newHouse(t, policy)
	v := h.run("work")
	for _, content := range []string{"one", "two"} {
		v, _ = h.checkpoint(v, content)
	}
	h.prune(false)
	if e := h.measured(); e != nil {
		t.Errorf("nothing was deleted: %+v", e)
	}
	for _, content := range []string{"three", "four"} {
		v, _ = h.checkpoint(v, content)
	}
	h.prune(true)
	if e := h.measured(); e != nil {
		t.Errorf("nothing was deleted yet: %+v", e)
	}
	if out := h.prune(false); len(out.Snapshots) == 0 {
		t.Fatalf("nothing was deleted: %+v", out)
	}
	want := int64(0)
	h.must(h.images.List(h.ctx, "default/lin-work/", func(i objectstore.Info) error {
		want += i.Size
		return nil
	}))
	e := h.measured()
	if e == nil || e.Bytes != want || want == 0 || e.UID != v.UID || e.Session != "work" {
		t.Errorf("said %+v, there are %d bytes", e, want)
	}
}

// measured gives the last event of what the images of "work" take.
func (h *house) measured() *schemas.Event {
	h.Helper()
	s, err := h.janitor.Publish.JS.Stream(h.ctx, stream.NamesWith("").Events())
	h.must(err)
	msg, err := s.GetLastMsgForSubject(h.ctx, schemas.SubjectEvent+".default.work.stored")
	if err != nil {
		return nil
	}
	var e schemas.Event
	h.must(json.Unmarshal(msg.Data, &e))
	return &e
}
