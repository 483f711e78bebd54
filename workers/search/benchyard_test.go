package search

import (
	"crypto/ed25519"
	"database/sql/driver"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"modernc.org/sqlite"

	"github.com/diapause/diapause/objectstore/dir"
	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
)

// keptYard is what of a yard is beside its store in a directory.
type keptYard struct {
	Key    string
	Signer ed25519.PrivateKey
	Tapes  []keptTape
}

// keptTape is one of its sessions.
type keptTape struct {
	Record schemas.SessionRecord
	At     int64
	Time   time.Time
}

func keptIn(folder string) string { return filepath.Join(folder, "yard.json") }

// keepIn notes a yard, whose store is in a directory, for the next run.
func (y *yard) keepIn(folder string) {
	y.t.Helper()
	k := keptYard{Key: y.key.String(), Signer: y.signer}
	for _, s := range y.records {
		k.Tapes = append(k.Tapes, keptTape{s.SessionRecord, s.at, s.time})
	}
	data, err := json.Marshal(k)
	if err == nil {
		err = os.WriteFile(keptIn(folder), data, 0o600)
	}
	if err != nil {
		y.t.Fatal(err)
	}
}

// openKept opens the yard of a directory, with what a run before kept there; kept is false if none has.
func openKept(y *yard, folder string) (kept bool) {
	y.t.Helper()
	objects, err := dir.Open(filepath.Join(folder, "objects"))
	if err != nil {
		y.t.Fatal(err)
	}
	y.store = &counting{Store: objects}
	data, err := os.ReadFile(keptIn(folder))
	if os.IsNotExist(err) {
		y.starts(y.key)
		return false
	}
	var k keptYard
	if err == nil {
		err = json.Unmarshal(data, &k)
	}
	if err == nil {
		y.key, err = age.ParseX25519Identity(k.Key)
	}
	if err != nil {
		y.t.Fatal(err)
	}
	y.signer = k.Signer
	for _, s := range k.Tapes {
		y.records[s.Record.Name().String()] = &taped{
			SessionRecord: s.Record, at: s.At, time: s.Time, place: recording.Place{Tenant: s.Record.Tenant, Lineage: s.Record.Lineage, UID: s.Record.UID},
		}
	}
	y.starts(y.key)
	return true
}

// record records sessions an hour apart, and indexes them: so many kinds of them, and of each copies, which have a line of their own after that. save
// is called now and then, when those that there are can be searched.
func record(b *testing.B, y *yard, sessions, kinds, each int, save func()) {
	b.Helper()
	type original struct {
		texts []string
		index []byte
		refs  []recording.Ref
	}
	all := make([]original, kinds)
	for i := range sessions {
		s := y.session(fmt.Sprintf("s%d", i))
		s.time = noon.Add(time.Duration(i) * time.Hour)
		source := y.Recordings.Source(s.SessionRecord)
		if of := &all[i%kinds]; i < kinds {
			of.texts = textsOf(i, each)
			of.refs = recordTexts(y, s, of.texts)
			must(b, y.update(b.Context(), s.Name(), true))
			var err error
			of.index, _, err = source.Index(b.Context())
			must(b, err)
		} else {
			refs := recordTexts(y, s, of.texts)
			data := indexOf(b, of.index, of.refs, refs, time.Duration(i-i%kinds)*time.Hour)
			must(b, source.PutIndex(b.Context(), refs[len(refs)-1], 0, data))
		}
		y.types(s, fmt.Sprintf("make own%d", i), 0, fmt.Sprintf("only here: of-%d session%d\r\n", i, i))
		must(b, y.update(b.Context(), s.Name(), false))
		if y.Forget(s.UID); i%50 == 49 {
			save()
		}
	}
	save()
}

// textsOf gives what a session shows.
func textsOf(session, each int) (texts []string) {
	for n, size := 0, 0; size < each; size += len(texts[len(texts)-1]) {
		var out strings.Builder
		for ; out.Len() < min(each, 512<<10); n++ {
			out.WriteString(benchLine(session, n) + "\r\n")
		}
		texts = append(texts, out.String())
	}
	return texts
}

// recordTexts records output, and gives its segments.
func recordTexts(y *yard, s *taped, texts []string) (refs []recording.Ref) {
	for n, text := range texts {
		y.types(s, fmt.Sprintf("make target%d", n), 0, parts(text)...)
		refs = append(refs, *s.last)
	}
	return refs
}

// parts cuts output into what comes within a second.
func parts(text string) (all []string) {
	for len(text) > 0 {
		n := min(len(text), 4<<10)
		all, text = append(all, text[:n]), text[n:]
	}
	return all
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// indexOf gives an index of the same output in other segments, at another time.
func indexOf(b *testing.B, data []byte, refs, theirs []recording.Ref, later time.Duration) []byte {
	b.Helper()
	conn, err := (&sqlite.Driver{}).Open(":memory:")
	must(b, err)
	defer conn.Close()
	serial := conn.(interface {
		Serialize() ([]byte, error)
		Deserialize([]byte) error
	})
	must(b, serial.Deserialize(data))
	pairs := []string{refs[0].Run, theirs[0].Run}
	for i := range refs {
		pairs = append(pairs, refs[i].Digest, theirs[i].Digest)
	}
	alter := func(name string, with func([]byte) []byte) {
		rows, err := conn.(driver.QueryerContext).QueryContext(b.Context(), `SELECT data FROM parts WHERE name = ?`, []driver.NamedValue{{Ordinal: 1, Value: name}})
		must(b, err)
		row := make([]driver.Value, 1)
		must(b, rows.Next(row))
		must(b, rows.Close())
		args := []driver.NamedValue{{Ordinal: 1, Value: with(row[0].([]byte))}, {Ordinal: 2, Value: name}}
		_, err = conn.(driver.ExecerContext).ExecContext(b.Context(), `UPDATE parts SET data = ? WHERE name = ?`, args)
		must(b, err)
	}
	alter("state", func(data []byte) []byte {
		var state map[string]any
		must(b, json.Unmarshal([]byte(strings.NewReplacer(pairs...).Replace(string(data))), &state))
		for _, block := range state["blocks"].([]any) {
			for _, moment := range []string{"b", "e"} {
				at, err := time.Parse(time.RFC3339Nano, block.(map[string]any)[moment].(string))
				must(b, err)
				block.(map[string]any)[moment] = at.Add(later)
			}
		}
		out, err := json.Marshal(state)
		must(b, err)
		return out
	})
	alter("commands", func(data []byte) []byte { // all are told by the first
		number, n := binary.Varint(data)
		began, m := binary.Varint(data[n:])
		return append(binary.AppendVarint(binary.AppendVarint(nil, number), began+later.Milliseconds()), data[n+m:]...)
	})
	out, err := serial.Serialize()
	must(b, err)
	return out
}
