package statekv

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/diapause/diapause/schemas"
)

// A record without its spec is that record, but for the spec; the whole of what was seen is
// the whole.
func TestSeen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRecord(t)
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var want, got schemas.SessionRecord
		if err := json.Unmarshal(data, &want); err != nil {
			t.Fatal(err)
		}
		seen := SeenOf(Versioned{SessionRecord: want, Rev: RevisionAt(7)}, data)
		if whole, err := seen.Whole(); err != nil || !reflect.DeepEqual(whole.SessionRecord, want) || whole.Rev.Seq() != 7 {
			t.Errorf("the whole is %+v, %v; want %+v", whole, err, want)
		}
		want.Spec = ""
		if err := json.Unmarshal(seen.Without("spec"), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("without its spec it is %+v, %v; want %+v", got, err, want)
		}
		if !json.Valid(seen.Without("transition")) || !json.Valid(seen.Without("nothing")) {
			t.Error("what is left is no JSON")
		}
	})
}

// reading measures what one record costs a reader.
func reading(b *testing.B, read func(data []byte) error) {
	r := schemas.SessionRecord{
		UID: "Zr3yqGk0h2mS6wLq1p0xYb", Tenant: "acme", Session: "web-42", Version: 12, Epoch: 5, State: schemas.Suspended, Class: "web", Host: "h-1", Driver: "criu",
		MadeBy: "person", Boot: "resume", Program: "bash", Spec: strings.Repeat("s", 600), Lineage: "Zr3yqGk0h2mS6wLq1p0xYb", Head: &schemas.Head{Name: "acme/l/snaps/5-1", Digest: "d"},
		Transition: schemas.Transition{ID: "Zr3yqGk0h2mS6wLq1p0xYc", Type: schemas.TReaped, Reason: "its processes are gone", Actor: "worker@h-1", Evidence: &schemas.Evidence{Seq: 9},
			Stages: []schemas.Stage{{Name: "freeze"}, {Name: "capture"}, {Name: "store"}}},
	}
	data, err := json.Marshal(r)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if err := read(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWatch(b *testing.B) {
	reading(b, func(data []byte) error { _, err := decode(data, 1); return err })
}

func BenchmarkSkim(b *testing.B) {
	shared := words{}
	reading(b, func(data []byte) error { _, err := glance(data, shared); return err })
}

// As the API keeps a record: decoded, and encoded again without its spec; or cut.
func BenchmarkKeepDecoded(b *testing.B) {
	reading(b, func(data []byte) error {
		v, err := decode(data, 1)
		v.Spec = ""
		if err == nil {
			_, err = json.Marshal(v.SessionRecord)
		}
		return err
	})
}

func BenchmarkKeepCut(b *testing.B) {
	shared := words{}
	reading(b, func(data []byte) error {
		g, err := glance(data, shared)
		_ = Seen{g, data}.Without("spec")
		return err
	})
}
