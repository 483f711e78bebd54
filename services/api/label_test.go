package api

import (
	"fmt"
	"maps"
	"testing"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

func TestDecideLabel(t *testing.T) {
	r := schemas.SessionRecord{Tenant: "default", Session: "s", State: schemas.Suspended, Labels: map[string]string{"a": "1"}}
	got, err := decideLabel(r, schemas.LabelRequest{Labels: map[string]string{"b": "2"}, Remove: []string{"a"}})
	if err != nil || got.Type != schemas.TLabelled || got.Reason != "its labels are b=2" || !maps.Equal(got.Set.Labels, map[string]string{"b": "2"}) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := decideLabel(r, schemas.LabelRequest{Labels: map[string]string{"a": "1"}, Remove: []string{"z"}}); err != nil || got.Type != "" {
		t.Errorf("nothing changes: %+v, %v", got, err)
	}
	if got, err := decideLabel(r, schemas.LabelRequest{Remove: []string{"a"}}); err != nil || got.Set.Labels != nil {
		t.Errorf("the last one: %+v, %v", got, err)
	}
	many := map[string]string{}
	for i := range schemas.MaxLabels {
		many[fmt.Sprint("k", i)] = "v"
	}
	if _, err := decideLabel(r, schemas.LabelRequest{Labels: many}); err == nil {
		t.Error("a session has more labels than it may")
	}
	r.State = schemas.Deleted
	if _, err := decideLabel(r, schemas.LabelRequest{Labels: map[string]string{"b": "2"}}); err == nil || session.Can(schemas.Deleted, schemas.TLabelled) {
		t.Errorf("a deleted session: %v", err)
	}
}
