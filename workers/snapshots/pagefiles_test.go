package snapshots

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/objectstore/dir"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
)

// baseOf writes a little image and gives its pages.
func baseOf(t *testing.T, uid schemas.UID, seq uint64) *image.Base {
	t.Helper()
	store, err := dir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	_, signer, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := image.Create(t.Context(), store, image.WriteOptions{
		Tenant: "t", Session: "s", UID: uid, Lineage: "l", Seq: seq, Signer: signer, SignerName: "h", Recipients: []age.Recipient{id.Recipient()},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add(image.Entry{Name: "f", Type: image.TypeFile, Size: -1}, strings.NewReader("something")); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := w.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w.Base()
}

func testFiles(t *testing.T) *pageFiles {
	t.Helper()
	s, err := openPageFiles(filepath.Join(t.TempDir(), "pages"), make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *pageFiles) mustPut(t *testing.T, uid schemas.UID, b *image.Base) {
	t.Helper()
	if err := s.put(uid, b); err != nil {
		t.Fatal(err)
	}
}

func TestPageFilesKeepsTheNewest(t *testing.T) {
	s := testFiles(t)
	old, next := baseOf(t, "u", 1), baseOf(t, "u", 2)
	s.mustPut(t, "u", old)
	s.mustPut(t, "u", next)
	if s.get("u", old.Head()) != nil || s.get("u", next.Head()) == nil || len(s.files()) != 1 {
		t.Errorf("it has %d files", len(s.files()))
	}
	if s.get("other", next.Head()) != nil {
		t.Error("another session got the pages")
	}
	// One that was renamed to a head that it isn't of.
	if err := os.Rename(s.file("u", next.Head()), s.file("u", old.Head())); err != nil {
		t.Fatal(err)
	}
	if s.get("u", old.Head()) != nil || s.has("u", old.Head()) {
		t.Error("pages of another head were taken, or left there")
	}
}

// Those that weren't used for longest make room.
func TestPageFilesIsBounded(t *testing.T) {
	s := testFiles(t)
	bases := map[schemas.UID]*image.Base{}
	for i, uid := range []schemas.UID{"a", "b", "c"} {
		bases[uid] = baseOf(t, uid, 1)
		s.mustPut(t, uid, bases[uid])
		used := time.Now().Add(time.Duration(i-10) * time.Hour)
		if err := os.Chtimes(s.file(uid, bases[uid].Head()), used, used); err != nil {
			t.Fatal(err)
		}
	}
	if s.get("a", bases["a"].Head()) == nil { // which makes it the last used one
		t.Fatal("what was put isn't there")
	}
	var size int64
	for _, f := range s.files() {
		size += f.Size()
	}
	s.limit = size + 64
	s.mustPut(t, "d", baseOf(t, "d", 1))
	for uid, want := range map[schemas.UID]bool{"a": true, "b": false, "c": true} {
		if s.has(uid, bases[uid].Head()) != want {
			t.Errorf("session %s is kept: %v, want %v", uid, !want, want)
		}
	}
	s.limit = 10
	if err := s.put("e", baseOf(t, "e", 1)); err == nil {
		t.Error("more than all that there may be was kept")
	}
}
