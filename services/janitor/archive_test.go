package janitor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// asleep makes a session that sleeps, with a terminal or without.
func (h *house) asleep(id string, tty bool) statekv.Versioned {
	h.Helper()
	v := h.swap(statekv.Versioned{}, schemas.Transition{Type: schemas.TRun, Set: schemas.Set{
		Host: "h", Op: &schemas.Op{ID: "o"},
		New: &schemas.NewSession{UID: schemas.UID("uid-" + id), Tenant: "default", Session: schemas.SessionID(id), Class: "web", Lineage: "lin-" + id, TTY: tty},
	}})
	v = h.swap(v, schemas.Transition{Type: schemas.TStarted})
	v = h.swap(v, schemas.Transition{Type: schemas.TSuspend, Set: schemas.Set{Op: &schemas.Op{ID: "s", Kind: schemas.OpSuspend}}})
	head := h.write(v, v.Version, "memory of "+id)
	return h.swap(v, schemas.Transition{Type: schemas.TSuspended, Set: schemas.Set{Head: &head}})
}

// archiving has the janitor archive as the API does.
func (h *house) archiving() {
	h.janitor.ToArchive = func(ctx context.Context, v statekv.Versioned, why schemas.ArchivedFor, reason string) error {
		_, err := h.records.Swap(ctx, v, session.Archive(why, reason, time.Now()))
		return err
	}
}

// Terminals whose policy says so are archived in place of being removed, and nothing removes what is archived.
func TestArchivedForItsAge(t *testing.T) {
	h := newHouse(t, Policy{Expire: time.Nanosecond})
	h.archiving()
	keep := schemas.Keep{Archive: new(schemas.Duration(1))}
	h.janitor.Keep = func(r schemas.SessionRecord) schemas.Keep {
		if r.Session == "new" {
			return schemas.Keep{Archive: new(schemas.Duration(time.Hour))}
		}
		return keep
	}
	head := h.asleep("old", true).Head
	h.asleep("new", true)
	h.asleep("plain", false)
	if out := h.prune(true); !slices.Equal(out.Archived, []string{"old"}) || !slices.Equal(out.Expired, []string{"plain"}) {
		t.Errorf("dry run: %+v", out)
	}
	if out := h.prune(false); !slices.Equal(out.Archived, []string{"old"}) || !slices.Equal(h.expired, []string{"plain"}) {
		t.Errorf("archived %v, removed %v", out.Archived, h.expired)
	}
	keep = schemas.Keep{} // from now on it would be removed
	if out := h.prune(false); len(out.Archived) != 0 || slices.Contains(out.Expired, "old") {
		t.Errorf("again: %+v", out)
	}
	v, err := h.records.Get(h.ctx, schemas.Name{Tenant: "default", Session: "old"})
	if err != nil || v.Archived.For != schemas.ArchivedForAge || v.State != schemas.Suspended || !h.there(*head) {
		t.Errorf("%+v, %v", v.Archived, err)
	}
}

// The memory of what is archived is dropped when its policy says so, all its snapshots with it, but for what others go on from. A run that
// was killed after the record said so is made up for.
func TestMemoryOfTheArchiveDropped(t *testing.T) {
	h := newHouse(t, Policy{})
	h.archiving()
	h.janitor.DropMemory = func(ctx context.Context, v statekv.Versioned, t schemas.Transition) error {
		_, err := h.records.Swap(ctx, v, t)
		return err
	}
	keep := schemas.Keep{Archive: new(schemas.Duration(1)), DropMemory: new(schemas.Duration(time.Hour))}
	h.janitor.Keep = func(schemas.SessionRecord) schemas.Keep { return keep }
	var until time.Time
	late := errors.New("activity is heard late")
	h.janitor.Held = func(_ context.Context, n schemas.Name) (time.Time, error) {
		if n.Session == "held" {
			return until, late
		}
		return time.Time{}, nil
	}
	plain, shared, killed, held := h.asleep("plain", true), h.asleep("shared", true), h.asleep("killed", true), h.asleep("held", true)
	if out := h.prune(false); len(out.Archived) != 4 || len(out.Dropped) != 0 {
		t.Fatalf("not yet: %+v", out)
	}
	fork := h.swap(statekv.Versioned{}, schemas.Transition{Type: schemas.TForkNew, Set: schemas.Set{
		Host: "h", Head: shared.Head, Op: &schemas.Op{ID: "f", Kind: schemas.OpResume, Source: shared.Head},
		New: &schemas.NewSession{UID: "uid-fork", Tenant: "default", Session: "fork", Class: "web", Lineage: "lin-fork"},
	}})
	keep.DropMemory = new(schemas.Duration(1))
	get := func(v statekv.Versioned) statekv.Versioned {
		t.Helper()
		v, err := h.records.Get(h.ctx, v.Name())
		h.must(err)
		return v
	}
	v := get(killed)
	drop, ok := session.DropMemory(v.SessionRecord, keep, time.Now().Add(time.Minute))
	if !ok {
		t.Fatal("it isn't due")
	}
	h.swap(v, drop) // and no more
	if out, err := h.janitor.Prune(h.ctx, true); err != nil || !slices.Equal(out.Dropped, []string{"plain"}) || len(out.Problems) != 1 || !strings.Contains(out.Problems[0], "session held: activity is heard late") {
		t.Errorf("while it isn't known what is held: %+v, %v", out, err)
	}
	until, late = time.Now().Add(time.Hour), nil
	if out := h.prune(true); !slices.Equal(out.Dropped, []string{"plain"}) || len(out.Problems) != 0 || !h.there(*plain.Head) || get(plain).Head == nil {
		t.Errorf("dry run: %+v", out)
	}
	if out := h.prune(false); !slices.Equal(out.Dropped, []string{"plain"}) || len(out.Problems) != 0 {
		t.Errorf("dropped %+v", out)
	}
	if h.there(*plain.Head) || h.there(*killed.Head) || !h.there(*shared.Head) {
		t.Errorf("there: %v, %v, %v", h.there(*plain.Head), h.there(*killed.Head), h.there(*shared.Head))
	}
	if v := get(plain); v.Head != nil || v.Archived == nil || v.Archived.Dropped.IsZero() || v.State != schemas.Suspended {
		t.Errorf("the record is %+v", v.SessionRecord)
	}
	h.swap(fork, schemas.Transition{Type: schemas.TRemove, Set: schemas.Set{Op: &schemas.Op{ID: "r", Kind: schemas.OpRemove}}})
	if out := h.prune(false); !slices.Equal(out.Dropped, []string{"shared"}) || h.there(*shared.Head) || !h.there(*held.Head) {
		t.Errorf("without the fork: %+v", out)
	}
	until = time.Time{}
	if out := h.prune(false); !slices.Equal(out.Dropped, []string{"held"}) || h.there(*held.Head) {
		t.Errorf("without the hold: %+v", out)
	}
	if out := h.prune(false); len(out.Dropped)+len(out.Snapshots)+len(out.Problems) != 0 {
		t.Errorf("again: %+v", out)
	}
}

// What a session that was started again meanwhile has just written stays, before its record points at it too.
func TestStartedAgainWhileMemoryIsDropped(t *testing.T) {
	h := newHouse(t, Policy{})
	v := h.asleep("again", true)
	head := *v.Head
	v = h.swap(v, session.Archive(schemas.ArchivedByHand, "asked", time.Now()))
	keep := schemas.Keep{DropMemory: new(schemas.Duration(1))}
	drop, ok := session.DropMemory(v.SessionRecord, keep, time.Now().Add(time.Minute))
	if !ok {
		t.Fatal("it isn't due")
	}
	v = h.swap(v, drop)
	d := Deletion{Snapshot: Snapshot{Session: v.Name(), UID: v.UID, Lineage: v.Lineage, Head: head, Dropped: true}}
	v = h.swap(v, schemas.Transition{Type: schemas.TRestart, Set: schemas.Set{Host: "h", Op: &schemas.Op{ID: "s", Kind: schemas.OpStart, Boot: schemas.BootClean}}})
	var out schemas.StorePrune
	if h.must(h.janitor.delete(h.ctx, d, &out)); !h.there(head) || len(out.Snapshots) != 0 || v.Archived != nil {
		t.Errorf("deleted: %+v", out)
	}
}

// A tenant that has too many outside the archive has its oldest terminals archived.
func TestArchivedToMakeRoom(t *testing.T) {
	h := newHouse(t, Policy{})
	h.archiving()
	h.janitor.Quota = func(schemas.Tenant) schemas.Quota { return schemas.Quota{Total: new(3)} }
	for _, id := range []string{"plain", "a", "b"} {
		h.asleep(id, id != "plain")
	}
	if out := h.prune(false); len(out.Archived) != 0 {
		t.Errorf("three of three: %+v", out)
	}
	h.run("runs")
	h.asleep("c", true)
	if out := h.prune(false); !slices.Equal(out.Archived, []string{"a", "b"}) || len(out.Expired) != 0 {
		t.Errorf("five of three: %+v", out)
	}
	if out := h.prune(false); len(out.Archived) != 0 {
		t.Errorf("again: %+v", out)
	}
}

// A template is no session: it counts for none, and isn't archived, however old it is.
func TestTemplatesStayOutOfTheArchive(t *testing.T) {
	h := newHouse(t, Policy{})
	h.archiving()
	h.janitor.Quota = func(schemas.Tenant) schemas.Quota { return schemas.Quota{Total: new(2)} }
	for _, id := range []string{"a", "b"} {
		h.asleep(id, true)
	}
	n, err := schemas.ParseTemplate("py")
	if err != nil {
		t.Fatal(err)
	}
	h.swap(statekv.Versioned{}, schemas.Transition{Type: schemas.TTemplate, Set: schemas.Set{
		Host: "h", Op: &schemas.Op{ID: "o", Kind: schemas.OpRewrite},
		New: &schemas.NewSession{UID: "uid-py", Tenant: n.Tenant, Session: n.Session, Class: "terminal", Lineage: "lin-py", TTY: true},
	}})
	if out := h.prune(false); len(out.Archived) != 0 || len(out.Problems) != 0 {
		t.Errorf("two of two, and a template: %+v", out)
	}
	h.janitor.Quota = nil
	h.janitor.Keep = func(schemas.SessionRecord) schemas.Keep { return schemas.Keep{Archive: new(schemas.Duration(1))} }
	if out := h.prune(false); !slices.Equal(out.Archived, []string{"a", "b"}) || len(out.Problems) != 0 {
		t.Errorf("all are old: %+v", out)
	}
}
