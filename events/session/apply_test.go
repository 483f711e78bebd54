package session_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

var allTypes = []schemas.TransitionType{
	schemas.TRun, schemas.TForkNew, schemas.TImported, schemas.TClaimed, schemas.TStarted, schemas.TStartFailed, schemas.TSuspend,
	schemas.TSuspendAborted, schemas.TSuspendFailed, schemas.TSuspended, schemas.TRevived, schemas.TReaped, schemas.TResume,
	schemas.TRestart, schemas.TResumed, schemas.TStartAgain, schemas.TResumeAgain, schemas.TResumeFailed, schemas.TCheckpoint, schemas.TCheckpointed,
	schemas.TCheckpointFailed, schemas.TExited, schemas.TLost, schemas.TKill, schemas.TIdleRule, schemas.TRemove, schemas.TDeferred, schemas.TRemoved, schemas.TMoved, schemas.TMovedBack, schemas.TRedeployed, schemas.TExposed, schemas.TLabelled, schemas.TShared, schemas.TUnshared, schemas.TTemplate, schemas.TRewritten, schemas.TArchived, schemas.TMemoryDropped, schemas.TRedacted,
}

func drawTransition(t *rapid.T) schemas.Transition {
	tr := schemas.Transition{
		ID: rapid.StringN(1, 4, 8).Draw(t, "id"), Type: rapid.SampledFrom(allTypes).Draw(t, "type"), Reason: "r", Actor: "a",
		At: t0.Add(time.Duration(rapid.IntRange(0, 1000).Draw(t, "at")) * time.Second),
	}
	tr.Evidence = &schemas.Evidence{Seq: uint64(rapid.IntRange(0, 50).Draw(t, "seq"))}
	tr.Set.Op = &schemas.Op{ID: "op", Kind: schemas.OpSuspend, Source: &schemas.Head{Name: "default/l/snaps/1-1"}}
	tr.Set.Head = &schemas.Head{Name: "default/l/snaps/2-3", Digest: "d"}
	tr.Set.Exit = &schemas.Exit{Code: 3}
	tr.Set.New = &schemas.NewSession{UID: schemas.UID(rapid.StringMatching("[a-z]{4}").Draw(t, "uid")), Tenant: "default", Session: "work", Class: "web", TTY: rapid.Bool().Draw(t, "tty")}
	tr.Set.Archived = &schemas.Archived{At: tr.At, For: schemas.ArchivedByHand}
	if rapid.Bool().Draw(t, "failed") {
		tr.Set.Failure = &schemas.Failure{Text: "x", Op: "suspend", Count: 1}
	}
	return tr
}

// For all transitions in any order: a refused one changes nothing, an
// accepted one raises the version by one and never lowers the epoch, and what a
// record says survives being stored and folded again.
func TestApplyKeepsTheLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rec schemas.SessionRecord
		var log []schemas.Transition
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			tr := drawTransition(t)
			next, err := session.Apply(rec, tr)
			if err != nil {
				if !errors.Is(err, session.ErrIllegal) || !reflect.DeepEqual(next, rec) {
					t.Fatalf("%s refused with %v, record %+v", tr.Type, err, next)
				}
				continue
			}
			made := slices.Contains([]schemas.TransitionType{schemas.TRun, schemas.TForkNew, schemas.TTemplate, schemas.TImported}, tr.Type) // it may draw the uid of the one before
			if next.Version != rec.Version+1 || next.Epoch < rec.Epoch || next.Seq < rec.Seq && !made {
				t.Fatalf("%s: version %d → %d, epoch %d → %d, seq %d → %d", tr.Type, rec.Version, next.Version, rec.Epoch, next.Epoch, rec.Seq, next.Seq)
			}
			if next.State != rec.State && !next.Since.Equal(tr.At) {
				t.Fatalf("%s entered %s at %v, recorded as %v", tr.Type, next.State, tr.At, next.Since)
			}
			if next.Archived != nil && (!next.TTY || next.State != schemas.Suspended && next.State != schemas.Exited && next.State != schemas.Failed) {
				t.Fatalf("%s: archived while it is %s, with a terminal: %v", tr.Type, next.State, next.TTY)
			}
			rec, log = reread(t, next), append(log, tr)
		}
		var folded schemas.SessionRecord
		for _, tr := range log {
			var err error
			if folded, err = session.Apply(folded, tr); err != nil {
				t.Fatal(err)
			}
		}
		if got := reread(t, folded); !reflect.DeepEqual(got, rec) {
			t.Fatalf("folding the log gives\n%+v\nthe record is\n%+v", got, rec)
		}
	})
}

func reread(t *rapid.T, r schemas.SessionRecord) schemas.SessionRecord {
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var out schemas.SessionRecord
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Only these change the owner, and each does.
func TestEpochGrowsWithTheOwner(t *testing.T) {
	states := []schemas.State{"", schemas.Starting, schemas.Running, schemas.Suspending, schemas.Suspended, schemas.Resuming, schemas.Exited, schemas.Failed, schemas.Deleted, schemas.Template}
	owners := map[schemas.TransitionType]bool{
		schemas.TRun: true, schemas.TForkNew: true, schemas.TTemplate: true, schemas.TImported: true, schemas.TSuspend: true, schemas.TRevived: true,
		schemas.TResume: true, schemas.TRestart: true, schemas.TRemove: true, schemas.TStartAgain: true, schemas.TResumeAgain: true, schemas.TMoved: true, schemas.TMovedBack: true, schemas.TRedeployed: true,
	}
	for _, typ := range allTypes {
		legal := 0
		for _, s := range states {
			tr := schemas.Transition{Type: typ, Set: schemas.Set{New: &schemas.NewSession{UID: "u"}, Op: &schemas.Op{}, Archived: &schemas.Archived{}}}
			r := schemas.SessionRecord{State: s, Epoch: 7, TTY: true}
			if typ == schemas.TMemoryDropped {
				r.Archived, r.Head = &schemas.Archived{}, &schemas.Head{}
			}
			next, err := session.Apply(r, tr)
			if err != nil {
				continue
			}
			legal++
			if grew := next.Epoch == 8; grew != owners[typ] {
				t.Errorf("%s from %q: epoch %d", typ, s, next.Epoch)
			}
		}
		if legal == 0 {
			t.Errorf("%s is legal from no state", typ)
		}
	}
}

// What comes back without its memory is not called a resume.
func TestBootOf(t *testing.T) {
	head := &schemas.Head{Name: "acme/lin1/snaps/1-1"}
	for _, c := range []struct {
		want schemas.Boot
		r    schemas.SessionRecord
	}{
		{schemas.BootResume, schemas.SessionRecord{Lineage: "lin1", Driver: "new", Keeps: schemas.KeepsMemory}},
		{schemas.BootRestart, schemas.SessionRecord{Lineage: "lin1", Driver: "new", Keeps: schemas.KeepsFiles}},
		{schemas.BootFork, schemas.SessionRecord{Lineage: "lin2", Driver: "new", Keeps: schemas.KeepsFiles}},
		// Records of versions that don't say what is kept.
		{schemas.BootResume, schemas.SessionRecord{Lineage: "lin1", Driver: "criu"}},
		{schemas.BootRestart, schemas.SessionRecord{Lineage: "lin1", Driver: "docker"}},
		{schemas.BootFork, schemas.SessionRecord{Lineage: "lin2", Driver: "docker"}},
		{schemas.BootResume, schemas.SessionRecord{Lineage: "lin1", Driver: "docker", Keeps: schemas.KeepsMemory}},
	} {
		c.r.Tenant, c.r.Head = "acme", head
		if got := session.BootOf(c.r); got != c.want {
			t.Errorf("a session of lineage %s, driver %s, that keeps %q: %q, want %q", c.r.Lineage, c.r.Driver, c.r.Keeps, got, c.want)
		}
	}
}

// A session that had ended stays so when going back to a snapshot fails: what no client
// asked for doesn't bring it back.
func TestEndedSessionStaysEnded(t *testing.T) {
	r := schemas.SessionRecord{State: schemas.Exited, Exit: &schemas.Exit{Code: 3}, Head: &schemas.Head{Name: "h"}}
	var err error
	for _, step := range []schemas.Transition{
		{Type: schemas.TResume, Set: schemas.Set{Op: &schemas.Op{Kind: schemas.OpResume}}},
		{Type: schemas.TResumeFailed, Set: schemas.Set{Failure: &schemas.Failure{Op: schemas.OpResume}}},
	} {
		if r, err = session.Apply(r, step); err != nil {
			t.Fatal(err)
		}
	}
	if r.State != schemas.Exited || r.Exit == nil || r.Exit.Code != 3 || r.Failure == nil || r.Op != nil {
		t.Errorf("it is %+v", r)
	}
	for _, step := range []schemas.Transition{{Type: schemas.TResume, Set: schemas.Set{Op: &schemas.Op{}}}, {Type: schemas.TResumed}} {
		if r, err = session.Apply(r, step); err != nil {
			t.Fatal(err)
		}
	}
	if r.State != schemas.Running || r.Exit != nil {
		t.Errorf("it is %+v", r)
	}
}

// What is taken over while something else was tried in its place stays what it was before that,
// also if the takeover fails.
func TestTakenOverWhileItIsProved(t *testing.T) {
	was, tried := &schemas.Head{Name: "was"}, &schemas.Head{Name: "tried"}
	r := schemas.SessionRecord{State: schemas.Resuming, Head: was, Op: &schemas.Op{Kind: schemas.OpResume, Source: tried, Fallback: was}}
	var err error
	for _, step := range []schemas.Transition{
		{Type: schemas.TResumed, Set: schemas.Set{Op: &schemas.Op{Kind: schemas.OpProve, Fallback: was}}},
		{Type: schemas.TTakenOver, Set: schemas.Set{Op: &schemas.Op{Kind: schemas.OpResume, Source: was}}},
		{Type: schemas.TResumeFailed, Set: schemas.Set{Failure: &schemas.Failure{Op: schemas.OpResume}}},
	} {
		if r, err = session.Apply(r, step); err != nil {
			t.Fatal(err)
		}
	}
	if r.State != schemas.Suspended || r.Head == nil || *r.Head != *was {
		t.Errorf("the takeover failed, and it is %s at %+v", r.State, r.Head)
	}
}

// All that a session is made with is in its first record, under the same name.
func TestNewIsKept(t *testing.T) {
	var n schemas.NewSession
	v := reflect.ValueOf(&n).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString("x")
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Int64:
			f.SetInt(7)
		case reflect.Uint64:
			f.SetUint(7)
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
			f.Index(0).SetString("x")
		case reflect.Map:
			f.Set(reflect.ValueOf(map[string]string{"x": "x"}))
		case reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
		default:
			t.Fatalf("%s is a %s, which this test doesn't fill", v.Type().Field(i).Name, f.Kind())
		}
	}
	for _, typ := range []schemas.TransitionType{schemas.TRun, schemas.TForkNew, schemas.TTemplate, schemas.TImported} {
		r, err := session.Apply(schemas.SessionRecord{}, schemas.Transition{Type: typ, Set: schemas.Set{New: &n}})
		if err != nil {
			t.Fatal(err)
		}
		kept := reflect.ValueOf(r)
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if got := kept.FieldByName(name); !got.IsValid() || !reflect.DeepEqual(got.Interface(), v.Field(i).Interface()) {
				t.Errorf("%s: the record doesn't have %s as it was given", typ, name)
			}
		}
	}
}

// Which image a session's root is becomes known when it starts, and stays.
func TestRootIsKept(t *testing.T) {
	named, known := &schemas.RootImage{Ref: "alpine:3"}, &schemas.RootImage{Ref: "alpine:3", Digest: "sha256:1"}
	var r schemas.SessionRecord
	for _, step := range []struct {
		t    schemas.Transition
		want *schemas.RootImage
	}{
		{schemas.Transition{Type: schemas.TRun, Set: schemas.Set{New: &schemas.NewSession{Root: named}}}, named},
		{schemas.Transition{Type: schemas.TStarted, Set: schemas.Set{Root: known}}, known},
		{schemas.Transition{Type: schemas.TSuspend}, known},
	} {
		var err error
		if r, err = session.Apply(r, step.t); err != nil {
			t.Fatal(err)
		}
		if r.Root != step.want {
			t.Errorf("after %s the root is %+v, want %+v", step.t.Type, r.Root, step.want)
		}
	}
}

// A template never runs: nothing leads from it but its removal.
func TestTemplateNeverRuns(t *testing.T) {
	head := &schemas.Head{Name: "default/l/snaps/1-1"}
	r := schemas.SessionRecord{UID: "u", State: schemas.Template, Head: head, Epoch: 1, Version: 2}
	for _, typ := range allTypes {
		next, err := session.Apply(r, schemas.Transition{Type: typ, Set: schemas.Set{Op: &schemas.Op{Kind: schemas.OpResume}, New: &schemas.NewSession{}, Head: head}})
		switch {
		case err != nil, next.State == schemas.Template:
		case typ != schemas.TRemove || next.State != schemas.Deleted:
			t.Errorf("%s makes a template %s", typ, next.State)
		}
	}
	v := session.View{}
	v.See(r, t0)
	if d := session.Decide(&v, session.Policy{}, t0); d.Verdict != session.Leave || d.Reason == "" {
		t.Errorf("decided is %s: %q", d.Verdict, d.Reason)
	}
}
