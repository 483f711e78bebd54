package api

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// The board gives a record back as it was, but for how the session is to be started, and
// counts each once, in any state.
func TestBoardKeepsRecords(t *testing.T) {
	b := newBoard()
	at := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	r := schemas.SessionRecord{
		Tenant: "acme", Session: "web", UID: "u", Version: 3, State: schemas.Running, Created: at, Since: at, Spec: "sealed", Idle: &schemas.Idle{Never: true},
		Head: &schemas.Head{Name: "acme/u/snaps/1-1"}, Failure: &schemas.Failure{Text: "why", Open: true, At: at},
		Transition: schemas.Transition{ID: "t", Type: schemas.TStarted, At: at, Stages: []schemas.Stage{{Name: "freeze", MS: 3}}},
	}
	other := r
	other.Tenant, other.State = "beta", schemas.Deleted
	for _, r := range []schemas.SessionRecord{r, other} {
		b.put(statekv.Versioned{SessionRecord: r})
	}
	got, ok := b.get(r.Name())
	want := r
	want.Spec = ""
	if !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if _, ok := b.get(schemas.Name{Tenant: "acme", Session: "none"}); ok {
		t.Error("there is one that there isn't")
	}
	for tenant, n := range map[schemas.Tenant]int{"": 1, "acme": 1, "beta": 0} {
		for range b.all(tenant) {
			n--
		}
		if n != 0 {
			t.Errorf("tenant %q: %d sessions too few", tenant, n)
		}
	}
	if b.census.States[schemas.Running] != 1 || b.census.Breakers != 1 {
		t.Errorf("%+v", b.census)
	}
	r.State, r.Failure = schemas.Suspended, nil
	b.put(statekv.Versioned{SessionRecord: r})
	if b.census.States[schemas.Running] != 0 || b.census.States[schemas.Suspended] != 1 || b.census.Breakers != 0 {
		t.Errorf("%+v", b.census)
	}
}

// put puts a record on the board as it comes from the log.
func (b *board) put(v statekv.Versioned) {
	data, err := json.Marshal(v.SessionRecord)
	if err == nil {
		err = b.skim(statekv.SeenOf(v, data))
	}
	if err != nil {
		panic(err)
	}
}
