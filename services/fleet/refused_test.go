package fleet

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// refuse has a host say that criu refused the image.
func (b *bench) refuse(refused ...schemas.HostID) {
	b.t.Helper()
	f := &schemas.Failure{Op: schemas.OpResume, Tried: refused, Refused: refused, At: time.Now()}
	b.change(schemas.Transition{Type: schemas.TResumeFailed, Set: schemas.Set{Failure: f}})
}

func onHostB(v statekv.Versioned) bool { return v.State == schemas.Resuming && v.Host == "b" }

func unresumable(v statekv.Versioned) bool {
	return v.Failure != nil && v.Failure.Cause == schemas.CauseRefused
}

// An image that every host has refused is noted as such, not before the last has, and no more once there is a host that may
// take it: one that was started since.
func TestRefusedImageIsNoted(t *testing.T) {
	b := newBench(t, "a", "b")
	b.asleep()
	b.resume(false)
	b.serve()
	b.until("heard of", func(statekv.Versioned) bool { return len(known(b.fleet)) > 0 })
	b.refuse("a")
	v := b.until("tried on b", onHostB)
	if len(v.Op.Refused) != 1 || v.Op.Refused[0] != "a" || v.Failure == nil || v.Failure.Cause != "" {
		t.Errorf("op %+v, failure %+v", v.Op, v.Failure)
	}
	b.refuse("a", "b")
	if v := b.until("noted", unresumable); v.State != schemas.Suspended || len(v.Failure.Refused) != 2 {
		t.Errorf("%s, failure %+v", v.State, v.Failure)
	}
	h := plain("b", 0).Host
	h.Started = time.Now().Add(time.Second)
	data, err := json.Marshal(h)
	b.must(err)
	kv, err := b.fleet.JS.KeyValue(t.Context(), b.fleet.Names.Hosts())
	b.must(err)
	_, err = kv.Put(t.Context(), "b", data)
	b.must(err)
	if v := b.until("taken back", func(v statekv.Versioned) bool { return !unresumable(v) }); v.State != schemas.Suspended || v.Failure == nil || v.Head == nil {
		t.Errorf("%s, failure %+v", v.State, v.Failure)
	}
}

// While a host is cordoned that hasn't refused it, or for a session that goes on, nothing is noted.
func TestNotRefusedEverywhere(t *testing.T) {
	b := newBench(t, "a", "b")
	_, err := b.fleet.Orders.Update(t.Context(), "b", func(o *schemas.HostOrder) (bool, error) { o.Cordoned = true; return true, nil })
	b.must(err)
	b.asleep()
	look := func() statekv.Versioned {
		t.Helper()
		v, err := b.fleet.Records.Get(t.Context(), b.name)
		b.must(err)
		return v
	}
	note := func(v statekv.Versioned) statekv.Versioned {
		t.Helper()
		b.must(b.fleet.unresumable(t.Context(), failed{Versioned: v}, schemas.Fingerprint{Driver: "criu"}))
		return look()
	}
	b.resume(false)
	b.refuse("a")
	if v := note(look()); unresumable(v) {
		t.Errorf("failure %+v", v.Failure)
	}
	b.resume(false)
	b.refuse("a", "b")
	before := look()
	b.resume(false)
	if v := note(before); v.State != schemas.Resuming || unresumable(v) {
		t.Errorf("%s, failure %+v", v.State, v.Failure)
	}
	b.refuse("a", "b")
	if v := note(look()); !unresumable(v) {
		t.Errorf("failure %+v", v.Failure)
	}
}
