package segment

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/dir"
)

var update = flag.Bool("update", false, "write the golden segments again")

// goldenKey is a key of tests, the same each time.
func goldenKey() ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("a key of tests"))
	return ed25519.NewKeyFromSeed(seed[:])
}

func trusts(host string) []ed25519.PublicKey {
	if host != "h" {
		return nil
	}
	return []ed25519.PublicKey{goldenKey().Public().(ed25519.PublicKey)}
}

func at(second int) time.Time { return time.Date(2026, 5, 4, 3, 2, second, 123456789, time.UTC) }

// parts are the revisions of the golden chain: JSON, JSON that isn't compact, and none at all.
var parts = [][]Revision{
	{
		{Subject: "$KV.DIAPAUSE_sessions.acme.work", Seq: 3, Time: at(3), Value: []byte(`{"uid":"u1","version":1,"text":"<a> & ü"}`)},
		{Subject: "$KV.DIAPAUSE_sessions.acme.work", Seq: 5, Time: at(5), Headers: map[string][]string{"Nats-Msg-Id": {"x"}}, Value: []byte(`{ "uid": "u1" }`)},
		{Subject: "$KV.DIAPAUSE_sessions.acme.other", Seq: 4, Time: at(4), Value: []byte{0, 1, 0xff}},
	},
	{{Subject: "$KV.DIAPAUSE_sessions.acme.work", Seq: 9, Time: at(9), Value: []byte(`{"uid":"u1","version":3}`)}},
}

// chainIn seals and stores the golden chain.
func chainIn(t *testing.T, store objectstore.Store, key *age.X25519Identity) (refs []Ref) {
	t.Helper()
	var previous Ref
	for i, revisions := range parts {
		s, err := Seal(Options{Previous: previous, Log: at(0), Written: at(30 + i), Key: key.Recipient(), Signer: goldenKey(), Host: "h"}, revisions)
		if err == nil {
			err = s.Put(t.Context(), store)
		}
		if err != nil {
			t.Fatal(err)
		}
		previous = s.Ref
		refs = append(refs, s.Ref)
	}
	return refs
}

func open(t *testing.T, root string) objectstore.Store {
	t.Helper()
	s, err := dir.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// golden gives a copy of the golden store, with its key and the end of its chain.
func golden(t *testing.T) (root string, store objectstore.Store, key *age.X25519Identity, refs []Ref) {
	t.Helper()
	root = t.TempDir()
	if err := os.CopyFS(root, os.DirFS("testdata/golden/store")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/golden/log.txt")
	if err == nil {
		key, err = age.ParseX25519Identity(strings.TrimSpace(string(text)))
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err = os.ReadFile("testdata/golden/chain.json")
	if err == nil {
		err = json.Unmarshal(text, &refs)
	}
	if err != nil {
		t.Fatal(err)
	}
	return root, open(t, root), key, refs
}

func writeGolden(t *testing.T) {
	t.Helper()
	root := filepath.Join("testdata", "golden")
	key, err := age.GenerateX25519Identity()
	if err == nil {
		err = os.RemoveAll(root)
	}
	if err != nil {
		t.Fatal(err)
	}
	refs := chainIn(t, open(t, filepath.Join(root, "store")), key)
	text, err := json.MarshalIndent(refs, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "chain.json"), append(text, '\n'), 0o644)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "log.txt"), []byte(key.String()+"\n"), 0o644)
	}
	if err == nil {
		err = os.Remove(filepath.Join(root, "store", ".tmp"))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, store objectstore.Store, ref Ref, key age.Identity) (h Header, out []Revision, err error) {
	t.Helper()
	h, err = Read(t.Context(), store, ref, trusts, []age.Identity{key}, func(r Revision) error {
		r.Value = bytes.Clone(r.Value)
		out = append(out, r)
		return nil
	})
	return h, out, err
}

// What earlier versions wrote is read byte by byte.
func TestGolden(t *testing.T) {
	if *update {
		writeGolden(t)
	}
	_, store, key, refs := golden(t)
	for i, ref := range refs {
		h, got, err := read(t, store, ref, key)
		if err != nil || !reflect.DeepEqual(got, parts[i]) {
			t.Errorf("segment %d: %+v, %v, want %+v", i+1, got, err, parts[i])
		}
		if h.Number != uint64(i+1) || h.Revisions != len(parts[i]) || h.Written != at(30+i) || h.Log != at(0) {
			t.Errorf("segment %d says %+v", i+1, h)
		}
	}
	chain, err := Walk(t.Context(), store, refs[1], 1, trusts)
	if err != nil || len(chain) != 2 || chain[0].Ref != refs[0] || chain[1].Ref != refs[1] || chain[0].Err != nil {
		t.Errorf("the chain is %+v, %v", chain, err)
	}
	if h := chain[0].Header; h.First != 3 || h.Last != 5 || h.From != at(3) || h.To != at(5) || h.Sessions != 2 {
		t.Errorf("the first says %+v", h)
	}
}

// The commands of FORMAT.md read a segment.
func TestCommands(t *testing.T) {
	root, _, _, refs := golden(t)
	build := exec.Command("go", "tool", "age", "-d", "-i", "testdata/golden/log.txt")
	data, err := os.ReadFile(filepath.Join(root, refs[0].Name))
	if err != nil {
		t.Fatal(err)
	}
	build.Stdin = bytes.NewReader(bytes.SplitN(data, []byte("\n"), 4)[3]) // tail -n +4
	packed, err := build.Output()
	if err != nil {
		t.Fatal(err)
	}
	z, err := zstd.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	text, err := io.ReadAll(z)
	if err != nil || !strings.Contains(string(text), `"value":{"uid":"u1","version":1,"text":"<a> & ü"}`) || bytes.Count(text, []byte("\n")) != 3 {
		t.Errorf("%s, %v", text, err)
	}
}

// A segment of which any byte is another, or that is cut short, isn't read.
func TestDamaged(t *testing.T) {
	root, store, key, refs := golden(t)
	file := filepath.Join(root, refs[1].Name)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		for _, bad := range [][]byte{append(append(bytes.Clone(data[:i]), data[i]^1), data[i+1:]...), data[:i]} {
			if err := os.WriteFile(file, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, ref := range []Ref{refs[1], {Number: 2, Name: refs[1].Name}} {
				_, _, err := read(t, store, ref, key)
				if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrForged) {
					t.Fatalf("with byte %d of %d changed, %d bytes in all: %v", i, len(data), len(bad), err)
				}
			}
		}
	}
}

// What isn't of this chain, or not signed by a host that is trusted, isn't taken for it.
func TestForged(t *testing.T) {
	root, store, key, refs := golden(t)
	for what, ref := range map[string]Ref{
		"another digest": {Number: 2, Name: refs[1].Name, Digest: refs[0].Digest},
		"another number": {Number: 3, Name: refs[1].Name},
	} {
		if _, _, err := read(t, store, ref, key); !errors.Is(err, ErrForged) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := Read(t.Context(), store, refs[0], func(string) []ed25519.PublicKey { return nil }, []age.Identity{key}, nil); !errors.Is(err, ErrForged) {
		t.Errorf("by no key: %v", err)
	}
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := read(t, store, refs[0], other); !errors.Is(err, ErrNoKey) {
		t.Errorf("with another key: %v", err)
	}
	if _, err := Compare(t.Context(), store, refs[0], trusts); err != nil {
		t.Errorf("without a key: %v", err)
	}
	if err := os.Remove(filepath.Join(root, refs[0].Name)); err != nil {
		t.Fatal(err)
	}
	chain, err := Walk(t.Context(), store, refs[1], 1, trusts)
	if err != nil || len(chain) != 2 || !errors.Is(chain[0].Err, objectstore.ErrNotFound) {
		t.Errorf("without the first the chain is %+v, %v", chain, err)
	}
}

func TestNumberOf(t *testing.T) {
	for name, want := range map[string]uint64{
		nameOf(7): 7, Prefix + "000000000001-x": 1, Prefix + "000000000000-x": 0, Prefix + "1-x": 0, Prefix + "00000000000a-x": 0, Prefix + "000000000001": 0,
		"acme/l/packs/x": 0, Prefix + "000000000001-": 0,
	} {
		if got, ok := NumberOf(name); got != want || ok != (want > 0) {
			t.Errorf("%s is number %d, %v", name, got, ok)
		}
	}
}

// oneObject is a store of one object.
type oneObject struct {
	objectstore.Store
	data []byte
}

func (o oneObject) Get(_ context.Context, _ string, offset, _ int64) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(o.data[offset:])), nil
}

// Any bytes are refused or read, and nothing panics: even signed by a host that is trusted.
func FuzzRead(f *testing.F) {
	data, err := os.ReadFile(goldenFile(f))
	if err != nil {
		f.Fatal(err)
	}
	lines := bytes.SplitN(data, []byte("\n"), 4)
	f.Add(lines[1], lines[3])
	f.Add([]byte(`{"number":1,"previous":null,"revisions":-1}`), []byte("age-encryption.org/v1\n"))
	key, err := age.GenerateX25519Identity()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, header, body []byte) {
		signed := magic + "\n" + string(header) + "\n"
		object := append([]byte(signed+base64.StdEncoding.EncodeToString(ed25519.Sign(goldenKey(), []byte(signed)))+"\n"), body...)
		_, _ = Read(t.Context(), oneObject{data: object}, Ref{Name: Prefix + "000000000001-x"}, trusts, []age.Identity{key}, func(Revision) error { return nil })
		_, _ = decode(bytes.NewReader(body), func(Revision) error { return nil })
	})
}

func goldenFile(f *testing.F) string {
	f.Helper()
	files, err := filepath.Glob("testdata/golden/store/" + Prefix + "000000000001-*")
	if err != nil || len(files) != 1 {
		f.Fatalf("golden segments: %q, %v", files, err)
	}
	return files[0]
}
