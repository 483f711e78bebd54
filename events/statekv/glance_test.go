package statekv

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/diapause/diapause/schemas"
)

// anyRecord draws a record as they are stored: with optional parts missing,
// and text that JSON escapes.
func anyRecord(t *rapid.T) schemas.SessionRecord {
	word := rapid.OneOf(rapid.StringMatching(`[A-Za-z0-9_-]{0,30}`), rapid.String())
	when := func(name string) time.Time {
		return time.Unix(rapid.Int64Range(0, 4e9).Draw(t, name), rapid.Int64Range(0, 999).Draw(t, name+" ms")*1e6).UTC()
	}
	n := rapid.Uint64Range(0, 1<<53)
	r := schemas.SessionRecord{
		UID: schemas.UID(word.Draw(t, "uid")), Tenant: "acme", Session: schemas.SessionID(word.Draw(t, "session")),
		Version: n.Draw(t, "version"), Epoch: n.Draw(t, "epoch"), Born: n.Draw(t, "born"), Seq: n.Draw(t, "seq"), Generation: n.Draw(t, "generation"),
		State: rapid.SampledFrom([]schemas.State{"", schemas.Running, schemas.Suspended, schemas.Deleted, schemas.Resuming}).Draw(t, "state"),
		Since: when("since"), Created: when("created"), Class: word.Draw(t, "class"), Host: schemas.HostID(word.Draw(t, "host")),
		MadeBy: schemas.MadeBy(word.Draw(t, "made by")), Program: word.Draw(t, "program"), Spec: word.Draw(t, "spec"), OnBreaker: schemas.OnBreaker(word.Draw(t, "on breaker")), Boot: schemas.Boot(word.Draw(t, "boot")),
	}
	if rapid.Bool().Draw(t, "has an op") {
		r.Op = &schemas.Op{ID: word.Draw(t, "op"), Kind: word.Draw(t, "kind"), Idle: rapid.Bool().Draw(t, "idle"), Description: word.Draw(t, "description")}
	}
	if rapid.Bool().Draw(t, "has a failure") {
		r.Failure = &schemas.Failure{Text: word.Draw(t, "failure"), Op: "suspend", Count: 2, At: when("failed at")}
	}
	if rapid.Bool().Draw(t, "is archived") {
		r.Archived = &schemas.Archived{At: when("archived at"), For: schemas.ArchivedFor(word.Draw(t, "archived for"))}
	}
	if rapid.Bool().Draw(t, "has a rule") {
		r.Idle = &schemas.Idle{Never: rapid.Bool().Draw(t, "never"), Grace: 5000}
	}
	r.Transition = schemas.Transition{ID: word.Draw(t, "transition"), Reason: word.Draw(t, "reason"), Set: schemas.Set{Op: r.Op}, Stages: []schemas.Stage{{Name: word.Draw(t, "stage")}}}
	return r
}

// A glance is the same part of a record, whichever way it is read.
func TestGlance(t *testing.T) {
	shared := words{}
	rapid.Check(t, func(t *rapid.T) {
		r := anyRecord(t)
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var whole Versioned
		if err := json.Unmarshal(data, &whole.SessionRecord); err != nil {
			t.Fatal(err)
		}
		got, err := glance(data, shared)
		if err != nil {
			t.Fatal(err)
		}
		if want := GlanceOf(whole); !reflect.DeepEqual(got, want) {
			t.Errorf("a glance at %s\ngives %+v\nwant  %+v", data, got.Record, want.Record)
		}
	})
}

// What every record holds is read the quick way.
func TestGlanceIsQuick(t *testing.T) {
	r := schemas.SessionRecord{UID: "u", Tenant: "acme", Session: "s", State: schemas.Running, Since: time.Now(), Host: "h",
		Op:         &schemas.Op{ID: "o", Description: `a "quoted" <b> \ one`},
		Transition: schemas.Transition{Reason: `it said "}{" and \`, Set: schemas.Set{Claim: "c"}}}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var got schemas.SessionRecord
	if !quickly(data, &got, words{}) || got.Op == nil || got.Op.Description != r.Op.Description {
		t.Errorf("%s is read slowly, or as %+v", data, got)
	}
}

// A glance ends at the last field of a record: new fields go before that.
func TestGlanceReadsAllFields(t *testing.T) {
	r := reflect.TypeFor[schemas.SessionRecord]()
	if got := r.Field(r.NumField() - 1).Tag.Get("json"); got != lastField {
		t.Errorf("the last field of a record is %q, not %q", got, lastField)
	}
}

// Any input is read without a panic, and as encoding/json reads it.
func FuzzGlance(f *testing.F) {
	f.Add([]byte(`{"uid":"u","state":"running","op":{"id":"x"}}`))
	f.Add([]byte(`{"uid":"u\"","n":[1,{"a":"]"}]}`))
	f.Add([]byte(`{"uid":"u"`))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = glance(data, words{})
		var r schemas.SessionRecord
		if json.Unmarshal(data, &r) != nil {
			return
		}
		stored, err := json.Marshal(r)
		if err != nil {
			return // a time that can't be written
		}
		var whole Versioned
		if err := json.Unmarshal(stored, &whole.SessionRecord); err != nil {
			t.Fatal(err)
		}
		if got, err := glance(stored, words{}); err != nil || !reflect.DeepEqual(got, GlanceOf(whole)) {
			t.Errorf("a glance at %s gives %+v, %v", stored, got, err)
		}
	})
}

// Words are kept once, and not too many of them.
func TestWords(t *testing.T) {
	w := words{}
	for n := range 3 * wordsAtMost {
		want := fmt.Sprint("host-", n%(wordsAtMost+wordsAtMost/2))
		var got string
		if !w.text([]byte(`"`+want+`"`), &got) || got != want {
			t.Fatalf("%q is read as %q", want, got)
		}
		if len(w) > wordsAtMost {
			t.Fatalf("%d words are kept", len(w))
		}
	}
	var got string
	for _, bad := range []string{``, `"`, `null`, `"a\"b"`, `"\u0041"`} {
		if w.text([]byte(bad), &got) {
			t.Errorf("%s is read as %q", bad, got)
		}
	}
}
