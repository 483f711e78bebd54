package image

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/objectstore/dir"
	"github.com/diapause/diapause/schemas"
)

// goldenItems is what the golden image holds: the second snapshot of a session.
func goldenItems() []item {
	pages := func(seed byte, n int) (data []byte) {
		for i := range n {
			data = append(data, bytes.Repeat([]byte{seed, byte(i), byte(i >> 8), '\n'}, PageSize/4)...)
		}
		return data
	}
	memory := append(pages('m', 20), make([]byte, 5*PageSize)...)
	memory = append(append(memory, pages('n', 3)...), pages('m', 2)...)
	return []item{
		fileItem("criu/pages-1.img", append(memory, "the end"...)),
		{Entry: Entry{Name: "upper", Type: TypeDir, Mode: 0o755, MTime: 1700000000123456789}},
		fileItem("upper/notes.txt", []byte("it was here\n")),
		{Entry: Entry{Name: "upper/link", Type: TypeSymlink, Link: "notes.txt", Mode: 0o777, Xattrs: map[string][]byte{"user.x": {1, 2}}}},
		{Entry: Entry{Name: "upper/again", Type: TypeHardlink, Link: "upper/notes.txt"}},
		fileItem("upper/empty", nil),
	}
}

// writeGolden makes testdata/golden: a store with two snapshots, the identity
// that reads it and the head.
func writeGolden(t *testing.T) {
	t.Helper()
	root := filepath.Join("testdata", "golden")
	if err := os.RemoveAll(root); err != nil {
		t.Fatal(err)
	}
	f := newFixtureAt(t, filepath.Join(root, "store"))
	f.signer = goldenKey()
	options := func(o WriteOptions) WriteOptions {
		o.Time = time.Date(2026, 5, 4, 3, 2, int(o.Seq), 0, time.UTC)
		o.cuts = cuts{frame: 4, pages: 10, bytes: 1 << 20}
		return o
	}
	items := goldenItems()
	w, head, _ := f.write(options(f.options()), items[:1])
	_, head, _ = f.write(options(f.next(head, w.Base())), items)
	text, err := json.Marshal(head)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{"head.json": string(text) + "\n", "identity.txt": f.identity.String() + "\n"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(root, "store", ".tmp")); err != nil {
		t.Fatal(err)
	}
}

// goldenFixture is a copy of the golden store.
func goldenFixture(t *testing.T) (*fixture, Head) {
	t.Helper()
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS("testdata/golden/store")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/golden/identity.txt")
	if err != nil {
		t.Fatal(err)
	}
	identity, err := age.ParseX25519Identity(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	var head Head
	if text, err = os.ReadFile("testdata/golden/head.json"); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &head); err != nil {
		t.Fatal(err)
	}
	store, err := dir.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{T: t, root: root, store: store, identity: identity, signer: goldenKey(), seq: 2}, head
}

// An image that was written once is read for ever, and goes on as a base.
func TestGoldenImage(t *testing.T) {
	if *update {
		writeGolden(t)
	}
	f, head := goldenFixture(t)
	f.check(head, goldenItems())
	base, err := LoadBase(t.Context(), f.open(head))
	if err != nil {
		t.Fatal(err)
	}
	_, next, stats := f.write(f.next(head, base), goldenItems())
	f.check(next, goldenItems())
	if stats.Full || stats.NewBytes != 0 {
		t.Errorf("the golden image's pages were not matched: %+v", stats)
	}
	all, err := List(t.Context(), f.store, "acme", "lin1", f.trusted)
	if err != nil || len(all) != 3 || all[1].Head != head || all[1].Header.Parent == nil || *all[1].Header.Parent != all[0].Head {
		t.Errorf("list: %+v, error %v", all, err)
	}
}

// The document of the format names every field that is written.
func TestFormatNamesFields(t *testing.T) {
	text, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []any{
		schemas.ImageHeader{}, schemas.ImagePack{}, schemas.ImageObject{}, schemas.Head{}, schemas.Fingerprint{},
		indexHead{}, indexPack{}, indexEntry{}, Entry{}, idsHead{},
	} {
		of := reflect.TypeOf(what)
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			if name != "" && !regexp.MustCompile("`[^`\n]*\\b"+name+"\\b[^`\n]*`|\""+name+"\"").Match(text) {
				t.Errorf("FORMAT.md doesn't name %q, of %s", name, of)
			}
		}
	}
}
