package session_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// terminal is a session with a terminal that has been in a state since t0.
func terminal(state schemas.State) schemas.SessionRecord {
	return schemas.SessionRecord{UID: "u", Tenant: "default", Session: "work", State: state, Since: t0, TTY: true, Head: &schemas.Head{Name: "default/l/snaps/1-1"}}
}

func TestWhatCanBeArchived(t *testing.T) {
	busy, plain, archived := terminal(schemas.Suspended), terminal(schemas.Suspended), terminal(schemas.Exited)
	busy.Op, plain.TTY, archived.Archived = &schemas.Op{Kind: schemas.OpReap}, false, &schemas.Archived{}
	for name, c := range map[string]struct {
		r  schemas.SessionRecord
		ok bool
	}{
		"asleep": {terminal(schemas.Suspended), true}, "ended": {terminal(schemas.Exited), true}, "failed": {terminal(schemas.Failed), true},
		"running": {terminal(schemas.Running), false}, "deleted": {terminal(schemas.Deleted), false}, "starting": {terminal(schemas.Starting), false},
		"under way": {busy, false}, "no terminal": {plain, false}, "archived": {archived, false},
	} {
		why := session.Unarchivable(c.r)
		next, err := session.Apply(c.r, session.Archive(schemas.ArchivedByHand, "asked", t0))
		if (why == "") != c.ok || (err == nil) != c.ok || err != nil && !errors.Is(err, session.ErrIllegal) {
			t.Errorf("%s: %q, %v", name, why, err)
		}
		if c.ok && (next.State != c.r.State || !next.Since.Equal(t0) || next.Head != c.r.Head || next.Archived.For != schemas.ArchivedByHand) {
			t.Errorf("%s: archived, it is %+v", name, next)
		}
	}
	if _, err := session.Apply(terminal(schemas.Suspended), schemas.Transition{Type: schemas.TArchived}); !errors.Is(err, session.ErrIllegal) {
		t.Errorf("archived for nothing: %v", err)
	}
}

// What has it run takes it out of the archive, and so does what removes it; all else leaves it there.
func TestOutOfTheArchive(t *testing.T) {
	in := apply(t, terminal(schemas.Suspended), session.Archive(schemas.ArchivedForAge, "old", t0))
	op := schemas.Set{Op: &schemas.Op{ID: "o", Kind: schemas.OpResume, Source: in.Head}}
	for _, out := range []schemas.TransitionType{schemas.TResume, schemas.TRestart, schemas.TRemove} {
		if r := apply(t, in, schemas.Transition{Type: out, Set: op}); r.Archived != nil {
			t.Errorf("after %s: %+v", out, r.Archived)
		}
	}
	for _, stays := range []schemas.TransitionType{schemas.TLabelled, schemas.TResealed, schemas.TIdleRule, schemas.TUnshared} {
		if r := apply(t, in, schemas.Transition{Type: stays}); r.Archived == nil {
			t.Errorf("after %s it isn't archived", stays)
		}
	}
	failed := apply(t, apply(t, in, schemas.Transition{Type: schemas.TResume, Set: op}), schemas.Transition{Type: schemas.TResumeFailed})
	if failed.State != schemas.Suspended || failed.Archived != nil {
		t.Errorf("after a resume that failed: %+v", failed)
	}
}

// A host whose version knows nothing of dropped memory refuses what lost it, until that is in use again.
func TestMemoryDroppedNeedsAVersion(t *testing.T) {
	r := terminal(schemas.Suspended)
	r.Needs = []schemas.Feature{schemas.FeatureDisk}
	in := apply(t, r, session.Archive(schemas.ArchivedByHand, "asked", t0))
	drop, ok := session.DropMemory(in, schemas.Keep{DropMemory: new(schemas.Duration(time.Second))}, t0.Add(time.Minute))
	if !ok {
		t.Fatal("it isn't due")
	}
	dropped := apply(t, in, drop)
	if want := []schemas.Feature{schemas.FeatureDisk, schemas.FeatureDropped}; !slices.Equal(dropped.Needs, want) || len(in.Needs) != 1 {
		t.Errorf("it needs %q, before that %q", dropped.Needs, in.Needs)
	}
	if labelled := apply(t, dropped, schemas.Transition{Type: schemas.TLabelled}); !slices.Contains(labelled.Needs, schemas.FeatureDropped) {
		t.Errorf("with a label it needs %q", labelled.Needs)
	}
	again := apply(t, dropped, schemas.Transition{Type: schemas.TRestart, Set: schemas.Set{Op: &schemas.Op{ID: "o", Kind: schemas.OpStart}}})
	if !slices.Equal(again.Needs, r.Needs) || len(dropped.Needs) != 2 {
		t.Errorf("in use it needs %q", again.Needs)
	}
	drop.Set.Needs = nil // by a version of before
	if before := apply(t, in, drop); !slices.Equal(before.Needs, r.Needs) || before.Archived.Dropped.IsZero() {
		t.Errorf("by an older version it is %+v", before)
	}
	if unknown := schemas.Unknown(dropped.Needs); len(unknown) > 0 {
		t.Errorf("this version doesn't know %q", unknown)
	}
}

// Held tells holds alone, in each state.
func TestHeld(t *testing.T) {
	v := running()
	v.Record.State = schemas.Suspended
	p, _ := session.PolicyFor("web", nil)
	now := at(300)
	ttl := func(seconds int) schemas.Activity {
		return schemas.Activity{TTL: schemas.Duration(time.Duration(seconds) * time.Second)}
	}
	if until := v.Held(p, now); !until.IsZero() {
		t.Errorf("nothing holds it, until %s", until)
	}
	heard(v, 2, 100, "busy", "b", ttl(9000))
	heard(v, 3, 100, "hold", schemas.AnswerKey, ttl(9000))
	heard(v, 4, 100, "hold", "old", ttl(100))
	if until := v.Held(p, now); !until.IsZero() {
		t.Errorf("no hold lives, until %s", until)
	}
	heard(v, 5, 100, "hold", "h", ttl(1000))
	heard(v, 6, 100, "hold", "i", ttl(2000))
	if until := v.Held(p, now); !until.Equal(at(2100)) {
		t.Errorf("it is held until %s", until)
	}
}

// What is imported is in the archive from its first record on, and nothing but its removal takes it out.
func TestImportedIsArchived(t *testing.T) {
	in := apply(t, schemas.SessionRecord{}, schemas.Transition{Type: schemas.TImported, Set: schemas.Set{
		New: &schemas.NewSession{UID: "u", Tenant: "default", Session: "demo", TTY: true}, Exit: &schemas.Exit{}, Archived: &schemas.Archived{At: t0, For: schemas.ArchivedImport},
	}})
	if in.State != schemas.Exited || in.Archived == nil || in.Archived.For != schemas.ArchivedImport {
		t.Fatalf("it is %s, %+v", in.State, in.Archived)
	}
	if why := session.Unarchivable(in); why != "it is archived" {
		t.Errorf("it may be archived once more: %q", why)
	}
	if r := apply(t, in, schemas.Transition{Type: schemas.TLabelled}); r.Archived == nil {
		t.Error("labelled, it isn't archived")
	}
	if r := apply(t, in, schemas.Transition{Type: schemas.TRemove, Set: schemas.Set{Op: &schemas.Op{Kind: schemas.OpRemove}}}); r.Archived != nil {
		t.Errorf("removed: %+v", r.Archived)
	}
}

// No activity wakes it.
func TestArchivedSleepsOn(t *testing.T) {
	p, _ := session.PolicyFor("terminal", nil)
	for _, archived := range []*schemas.Archived{nil, {At: t0}} {
		var v session.View
		r := terminal(schemas.Suspended)
		r.Archived = archived
		v.See(r, t0)
		v.Hear(session.Message{Source: schemas.Source{Name: work, Kind: schemas.KindInput}, Seq: 10, At: at(1)}, p)
		if d := session.Decide(&v, p, at(2)); (d.Verdict == session.Wake) != (archived == nil) || d.Reason == "" || archived != nil && !d.Next.IsZero() {
			t.Errorf("archived %+v: %+v", archived, d)
		}
	}
}

func TestArchivedByItsPolicy(t *testing.T) {
	month := schemas.Duration(30 * 24 * time.Hour)
	keep, none := schemas.Keep{Archive: &month}, schemas.Keep{Archive: new(schemas.Duration(0))}
	plain := terminal(schemas.Suspended)
	plain.TTY = false
	for name, c := range map[string]struct {
		r     schemas.SessionRecord
		keep  schemas.Keep
		after time.Duration
		ok    bool
	}{
		"too soon": {terminal(schemas.Suspended), keep, time.Duration(month) - 1, false}, "due": {terminal(schemas.Suspended), keep, time.Duration(month), true},
		"ended": {terminal(schemas.Exited), keep, time.Duration(month), true}, "running": {terminal(schemas.Running), keep, 2 * time.Duration(month), false},
		"not asked for": {terminal(schemas.Suspended), schemas.Keep{}, 2 * time.Duration(month), false}, "never": {terminal(schemas.Suspended), none, 2 * time.Duration(month), false},
		"no terminal": {plain, keep, 2 * time.Duration(month), false},
	} {
		tr, ok := session.ArchiveFor(c.r, c.keep, t0.Add(c.after))
		if ok != c.ok || ok && (tr.Set.Archived.For != schemas.ArchivedForAge || !tr.Set.Archived.At.Equal(t0.Add(c.after))) {
			t.Errorf("%s: %v, %+v", name, ok, tr)
		}
	}
}

// The longest asleep go first; of what can't be archived none does.
func TestArchivedToMakeRoom(t *testing.T) {
	var all []schemas.SessionRecord
	add := func(id schemas.SessionID, state schemas.State, since float64) {
		r := terminal(state)
		r.Session, r.Since = id, at(since)
		all = append(all, r)
	}
	add("new", schemas.Suspended, 9)
	add("runs", schemas.Running, 0)
	add("ended", schemas.Exited, 5)
	add("b", schemas.Suspended, 3)
	add("a", schemas.Suspended, 3)
	for n, want := range [][]schemas.SessionID{{}, {"a"}, {"a", "b"}, {"a", "b", "ended"}, {"a", "b", "ended", "new"}, {"a", "b", "ended", "new"}} {
		got := []schemas.SessionID{}
		for _, r := range session.ArchiveForRoom(slices.Clone(all), n, func(r schemas.SessionRecord) schemas.SessionRecord { return r }) {
			got = append(got, r.Session)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d: %v, want %v", n, got, want)
		}
	}
	if got := session.ArchiveForRoom(slices.Clone(all), -2, func(r schemas.SessionRecord) schemas.SessionRecord { return r }); len(got) != 0 {
		t.Errorf("less than none: %d", len(got))
	}
}
