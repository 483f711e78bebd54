package api

import (
	"errors"
	"strings"
	"testing"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

func limits(sessions, running int) schemas.Quota {
	return schemas.Quota{Sessions: &sessions, Running: &running}
}

func shown(id, uid string, version uint64, state schemas.State) statekv.Versioned {
	return statekv.Versioned{SessionRecord: schemas.SessionRecord{Tenant: "acme", Session: schemas.SessionID(id), UID: schemas.UID(uid), Version: version, State: state}}
}

// A place of a quota is given once: from the request on, through the swap and until the
// board shows it, and again when it is free.
func TestQuotaPlacesAreGivenOnce(t *testing.T) {
	b := newBoard()
	b.put(shown("a", "ua", 1, schemas.Running))
	b.put(shown("b", "ub", 1, schemas.Suspended))
	b.put(shown("gone", "ug", 9, schemas.Deleted))
	q := limits(3, 2)
	ask := func(id string, sessions int) (*claim, error) {
		c := &claim{name: schemas.Name{Tenant: "acme", Session: schemas.SessionID(id)}, sessions: sessions, running: 1}
		return c, b.claim(q, c)
	}
	first, err := ask("c", 1)
	if err != nil {
		t.Fatal(err)
	}
	refusedWith := func(what string, err error) {
		t.Helper()
		var answer *schemas.APIError
		if !errors.As(err, &answer) || answer.Code != schemas.CodeState || !strings.Contains(answer.Text+"; "+answer.Hint, what) {
			t.Errorf("%v; want a refusal with %q", err, what)
		}
	}
	_, err = ask("d", 1)
	refusedWith("has 3 sessions, its quota is 3", err)
	_, err = ask("b", 0)
	refusedWith("has 2 sessions running, its quota is 2", err)
	b.settle(first, shown("c", "uc", 1, schemas.Starting), nil)
	_, err = ask("b", 0)
	refusedWith("policy set tenant:acme quota=running:3", err)
	b.put(shown("c", "uc", 1, schemas.Starting))
	if len(b.claims) != 0 || b.heldBy("acme") != (schemas.Held{Sessions: 3, Running: 2}) {
		t.Errorf("claims %v, held %+v", b.claims, b.heldBy("acme"))
	}
	b.put(shown("c", "uc", 2, schemas.Exited))
	second, err := ask("b", 0)
	if err != nil {
		t.Fatal(err)
	}
	b.settle(second, statekv.Versioned{}, statekv.ErrConflict) // it came to nothing
	third, err := ask("b", 0)
	if err != nil {
		t.Fatal(err)
	}
	b.put(shown("b", "ub", 2, schemas.Resuming)) // before the swap's answer
	b.settle(third, shown("b", "ub", 2, schemas.Resuming), nil)
	if len(b.claims) != 0 || b.heldBy("acme") != (schemas.Held{Sessions: 3, Running: 2}) {
		t.Errorf("claims %v, held %+v", b.claims, b.heldBy("acme"))
	}
	if err := b.claim(schemas.Quota{}, &claim{name: third.name, sessions: 100, running: 100}); err != nil {
		t.Errorf("without a quota: %v", err)
	}
}

// What is no more than before needs no place: a rollback, a checkpoint, an end.
func TestWhatRecordsTake(t *testing.T) {
	for state, want := range map[schemas.State][2]int{
		"": {0, 0}, schemas.Starting: {1, 1}, schemas.Running: {1, 1}, schemas.Suspending: {1, 1}, schemas.Suspended: {1, 0}, schemas.Resuming: {1, 1},
		schemas.Exited: {1, 0}, schemas.Failed: {1, 0}, schemas.Deleted: {0, 0},
	} {
		if s, r := weigh(state, false, false); s != want[0] || r != want[1] {
			t.Errorf("%q: %d sessions, %d running", state, s, r)
		}
	}
}
