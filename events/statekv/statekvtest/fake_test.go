package statekvtest_test

import (
	"testing"

	"github.com/diapause/diapause/events/statekv/statekvtest"
	"github.com/diapause/diapause/schemas"
)

func TestFake(t *testing.T) {
	statekvtest.Test(t, func(*testing.T) statekvtest.Records { return statekvtest.New() })
}

// What a test puts is read as it stands, and can be swapped.
func TestPut(t *testing.T) {
	f := statekvtest.New()
	put := f.Put(schemas.SessionRecord{UID: "u", Tenant: "acme", Session: "a", State: schemas.Running, Version: 7})
	got, err := f.Get(t.Context(), put.Name())
	if err != nil || got.State != schemas.Running || got.Version != 7 || got.Rev != put.Rev {
		t.Fatalf("%+v, %v", got, err)
	}
	next, err := f.Swap(t.Context(), got, schemas.Transition{Type: schemas.TIdleRule})
	if err != nil || next.Version != 8 {
		t.Errorf("%+v, %v", next, err)
	}
}
