package image

import (
	"bytes"
	"crypto/ed25519"
	"testing"
)

// keptFixture is an image of 40 pages in several packs, and its base as it is kept.
func keptFixture(t *testing.T) (f *fixture, head Head, base *Base, kept, key []byte) {
	f = newFixture(t)
	w, head, _ := f.write(f.options(), []item{fileItem("criu/pages-1.img", memory(40*PageSize))})
	key, err := KeptKey(f.signer)
	if err != nil {
		t.Fatal(err)
	}
	if kept, err = w.Base().Keep(key); err != nil {
		t.Fatal(err)
	}
	return f, head, w.Base(), kept, key
}

// What was kept serves as the base itself does, and without any identity.
func TestKeptBase(t *testing.T) {
	f, head, _, kept, key := keptFixture(t)
	base, err := RestoreBase(kept, key)
	if err != nil || base.Head() != head {
		t.Fatalf("kept base: %v", err)
	}
	items := []item{fileItem("criu/pages-1.img", memory(41*PageSize))}
	w, next, stats := f.write(f.next(head, base), items)
	f.check(next, items)
	if stats.Full || stats.NewBytes != PageSize {
		t.Errorf("a page more than what was kept stored %d bytes, full %v", stats.NewBytes, stats.Full)
	}
	// And the base of that one is kept as well: it spans two packs.
	if kept, err = w.Base().Keep(key); err != nil {
		t.Fatal(err)
	}
	if base, err = RestoreBase(kept, key); err != nil {
		t.Fatal(err)
	}
	if _, last, stats := f.write(f.next(next, base), items); stats.NewBytes != 0 {
		t.Errorf("the same once more stored %d bytes of %s", stats.NewBytes, last.Name)
	}
}

func TestKeptBaseDamaged(t *testing.T) {
	_, _, _, kept, key := keptFixture(t)
	for at := range kept {
		bad := bytes.Clone(kept)
		bad[at] ^= 0x10
		if _, err := RestoreBase(bad, key); err == nil {
			t.Fatalf("byte %d of %d changed, and it was taken", at, len(kept))
		}
		if _, err := RestoreBase(kept[:at], key); err == nil {
			t.Fatalf("cut to %d of %d bytes, and it was taken", at, len(kept))
		}
	}
	_, other, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := KeptKey(other)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := RestoreBase(kept, foreign); err == nil {
		t.Error("another host's was taken")
	}
}

// The ids tell about the pages to who knows the hash key: neither is in clear.
func TestKeptBaseIsSealed(t *testing.T) {
	_, _, base, kept, _ := keptFixture(t)
	id := base.ids.at(7)
	for what, secret := range map[string][]byte{"hash key": base.hash[:], "id": id[:], "pack": []byte(base.packs[0].Name)} {
		if bytes.Contains(kept, secret) {
			t.Errorf("the %s is in clear", what)
		}
	}
}
