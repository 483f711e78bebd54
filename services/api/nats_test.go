package api

import (
	"slices"
	"strconv"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/schemas"
)

// A session that was suspended often has a history that NATS carries packed alone. Who doesn't say that it can
// read that gets it as it is.
func TestLargeAnswers(t *testing.T) {
	const most = 1 << 20
	var history []schemas.TransitionView
	for i := range 20_000 {
		history = append(history, schemas.TransitionView{Version: uint64(i), Type: schemas.TResume, Reason: "GET /first-" + strconv.Itoa(i)})
	}
	s := &Server{}
	plain := s.encode(history, nil)
	if len(plain.Data) <= most {
		t.Fatalf("the answer has only %d bytes", len(plain.Data))
	}
	takes := from(nats.Header{schemas.HeaderTakes: {schemas.Gzip}})
	sent := takes.packed(plain, most)
	if len(sent.Data) > most {
		t.Errorf("packed it has %d bytes", len(sent.Data))
	}
	var got []schemas.TransitionView
	if err := events.ReadAnswer(sent, &got); err != nil || !slices.EqualFunc(got, history, func(a, b schemas.TransitionView) bool {
		return a.Version == b.Version && a.Reason == b.Reason
	}) {
		t.Errorf("%d transitions are read, %v", len(got), err)
	}
	if got := from(nats.Header{}).packed(plain, most); got != plain {
		t.Error("it is packed for a client that may not read that")
	}
	if small := s.encode(history[:10], nil); takes.packed(small, most) != small {
		t.Error("what NATS carries is packed")
	}
}
