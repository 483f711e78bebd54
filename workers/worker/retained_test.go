package worker

import (
	"context"
	"log/slog"
	"testing"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// What is kept of a session that ended here is all that it has until it has run elsewhere.
func TestWentOn(t *testing.T) {
	r := &retained{drivers: drivers{host: "here"}}
	at := func(uid schemas.UID, epoch uint64, host schemas.HostID, s schemas.State, op string) statekv.Versioned {
		v := statekv.Versioned{SessionRecord: schemas.SessionRecord{UID: uid, Epoch: epoch, Host: host, State: s}}
		if op != "" {
			v.Op = &schemas.Op{Kind: op}
		}
		return v
	}
	clean := at("s", 2, "there", schemas.Running, "")
	clean.Boot = "clean"
	ended := []statekv.Versioned{at("s", 1, "here", schemas.Running, ""), at("s", 1, "here", schemas.Exited, "")}
	for what, c := range map[string]struct {
		since        []statekv.Versioned
		own, foreign bool
	}{
		"it ended":                  {nil, false, false},
		"resuming elsewhere":        {[]statekv.Versioned{at("s", 2, "there", schemas.Resuming, schemas.OpResume)}, false, false},
		"recorded to run elsewhere": {[]statekv.Versioned{at("s", 2, "there", schemas.Running, schemas.OpBegin)}, false, false},
		"on trial elsewhere":        {[]statekv.Versioned{at("s", 2, "there", schemas.Running, schemas.OpProve)}, false, false},
		"couldn't start elsewhere":  {[]statekv.Versioned{at("s", 2, "there", schemas.Running, schemas.OpBegin), at("s", 2, "there", schemas.Exited, "")}, false, false},
		"runs elsewhere":            {[]statekv.Versioned{at("s", 2, "there", schemas.Running, "")}, true, false},
		"is captured elsewhere":     {[]statekv.Versioned{at("s", 3, "there", schemas.Suspending, schemas.OpSuspend)}, true, false},
		"ran elsewhere, and ended":  {[]statekv.Versioned{at("s", 2, "there", schemas.Running, ""), at("s", 2, "there", schemas.Exited, "")}, true, false},
		"started clean elsewhere":   {[]statekv.Versioned{clean}, false, false},
		"and resumed from that":     {[]statekv.Versioned{clean, at("s", 4, "there", schemas.Running, "")}, false, false},
		"and removed":               {[]statekv.Versioned{clean, at("s", 3, "there", schemas.Deleted, schemas.OpRemove)}, true, true},
		"runs here":                 {[]statekv.Versioned{at("s", 2, "here", schemas.Running, "")}, false, false},
		"removed":                   {[]statekv.Versioned{at("s", 2, "there", schemas.Deleted, schemas.OpRemove)}, true, true},
		"another of its name":       {[]statekv.Versioned{at("later", 1, "there", schemas.Running, "")}, true, true},
	} {
		for kind, want := range map[bool]bool{false: c.own, true: c.foreign} {
			if got := r.wentOn(append(ended[:2:2], c.since...), driver.Kept{UID: "s", Epoch: 1, Foreign: kind}); got != want {
				t.Errorf("%s, foreign %t: it went on: %t", what, kind, got)
			}
		}
	}
	if r.wentOn([]statekv.Versioned{at("earlier", 1, "here", schemas.Deleted, "")}, driver.Kept{UID: "s", Epoch: 1}) {
		t.Error("a record from before the session says that it went on")
	}
}

type keeper struct{ driver.Driver }

func (keeper) Kept() ([]driver.Kept, error)                { return nil, nil }
func (keeper) Release(context.Context, driver.Fence) error { return nil }

// A host remembers no session that was removed on it.
func TestRetainedFollows(t *testing.T) {
	r := newRetained(drivers{host: "here", byName: map[schemas.DriverName]driver.Driver{"d": keeper{}}}, nil, func(schemas.Name) {}, slog.New(slog.DiscardHandler))
	v := statekv.Versioned{SessionRecord: schemas.SessionRecord{Tenant: "t", Session: "s", UID: "u", Host: "here", Driver: "d", State: schemas.Running}}
	r.follow(v)
	if got := r.uids[v.Name()]; len(got) != 1 {
		t.Errorf("while it runs %v is noted", got)
	}
	v.State, v.Op = schemas.Deleted, &schemas.Op{Kind: schemas.OpRemove}
	r.follow(v)
	if got := r.uids[v.Name()]; len(got) != 1 {
		t.Errorf("while it is removed %v is noted", got)
	}
	v.Op = nil
	if r.follow(v); len(r.uids) > 0 {
		t.Errorf("after it was removed %v is noted", r.uids)
	}
}
