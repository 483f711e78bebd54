package image

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"
	"pgregory.net/rapid"
)

// next are the options for a snapshot that follows another one.
func (f *fixture) next(head Head, base *Base) WriteOptions {
	o := f.options()
	o.Parent, o.Base = &head, base
	return o
}

func TestMatchesParent(t *testing.T) {
	f := newFixture(t)
	memory := text(8 << 20)
	items := []item{fileItem("criu/pages-1.img", memory)}
	w, head, first := f.write(f.options(), items)

	// The next one has a changed page, and moved ones.
	memory = append(random(PageSize), memory...)
	memory[4<<20] ^= 1
	items = []item{fileItem("criu/pages-1.img", memory), fileItem("upper/new", random(10))}
	loaded, err := LoadBase(t.Context(), f.open(head))
	if err != nil {
		t.Fatal(err)
	}
	for what, base := range map[string]*Base{"kept": w.Base(), "loaded": loaded} {
		w2, head2, stats := f.write(f.next(head, base), items)
		f.check(head2, items)
		if stats.Full || stats.NewBytes != 3*PageSize || stats.StoredBytes > first.StoredBytes/10 {
			t.Errorf("%s base: stats %+v, after a first image of %+v", what, stats, first)
		}
		if base := w2.Base(); base.ids.count != 8<<20/PageSize+3 || base.Head() != head2 {
			t.Errorf("%s base: the next one has %d ids of %+v", what, base.ids.count, base.Head())
		}
	}
	if keys := f.under("keys/"); len(keys) != 1 {
		t.Errorf("keys %v: want one for the lineage", keys)
	}
}

func (f *fixture) under(part string) (names []string) {
	for _, name := range f.objects() {
		if strings.Contains(name, "/"+part) {
			names = append(names, name)
		}
	}
	return names
}

// A base that can't be trusted to be there is left aside.
func TestUnusableBaseIsLeftAside(t *testing.T) {
	f := newFixture(t)
	items := []item{fileItem("criu/a", text(1<<20))}
	w, head, _ := f.write(f.options(), items)
	base := w.Base()
	other := head
	other.Digest = hexDigest(nil)

	_, head2, stats := f.write(f.next(other, base), items)
	f.check(head2, items)
	if !stats.Full {
		t.Error("matched against a base that is not the parent's")
	}
	if err := os.Remove(f.path(f.open(head).packs[0].name)); err != nil {
		t.Fatal(err)
	}
	_, head3, stats := f.write(f.next(head, base), items)
	f.check(head3, items)
	if !stats.Full {
		t.Error("matched against a pack that is gone")
	}
}

// A pack of the parent that goes while an image is written stops the commit.
func TestBaseDeletedMeanwhile(t *testing.T) {
	f := newFixture(t)
	items := []item{fileItem("criu/a", text(1<<20))}
	w, head, _ := f.write(f.options(), items)
	w2, err := Create(t.Context(), f.store, f.next(head, w.Base()))
	if err != nil {
		t.Fatal(err)
	}
	if err := w2.Add(items[0].Entry, bytes.NewReader(items[0].data)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(f.path(f.open(head).packs[0].name)); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := w2.Commit(t.Context()); !errors.Is(err, ErrBaseGone) {
		t.Fatalf("commit: error %v, want ErrBaseGone", err)
	}
	w2.Abort()
	if snaps := f.under("snaps/"); len(snaps) != 1 {
		t.Errorf("snapshots %v, want the first alone", snaps)
	}
}

// Packs of which little is live are not matched any more and fall out.
func TestBaseDropsDeadPacks(t *testing.T) {
	f := newFixture(t)
	old := text(4 << 20)
	w, head, _ := f.write(f.options(), []item{fileItem("criu/a", old)})
	// A tenth of the first pack stays live, which is referred to once more …
	items := []item{fileItem("criu/a", append(text(4<<20), old[:4<<20/10]...))}
	w, head, stats := f.write(f.next(head, w.Base()), items)
	if stats.MatchedPages == 0 || len(w.header.Packs) != 2 {
		t.Fatalf("stats %+v, packs %d", stats, len(w.header.Packs))
	}
	// … and then written again.
	w, head, stats = f.write(f.next(head, w.Base()), items)
	f.check(head, items)
	if len(w.header.Packs) != 2 || stats.NewBytes == 0 || stats.NewBytes > 4<<20/9 {
		t.Fatalf("stats %+v, packs %d", stats, len(w.header.Packs))
	}
	for _, p := range f.open(head).index.live() {
		if p == 0 {
			t.Error("the image names a pack that it doesn't need")
		}
	}
}

// A writer without any secret uses the parent's key, or the one it is given.
func TestKeysWithoutSecrets(t *testing.T) {
	f := newFixture(t)
	items := []item{fileItem("criu/a", text(100_000))}
	w, head, _ := f.write(f.options(), items)
	o := f.next(head, nil)
	o.Recipients = nil
	w2, head2, stats := f.write(o, items)
	f.check(head2, items)
	if w2.key != w.key || !stats.Full {
		t.Errorf("key %v, want the parent's %v; stats %+v", w2.key, w.key, stats)
	}
	o = f.options()
	o.Recipients, o.Key = nil, &w.key
	_, head3, _ := f.write(o, items)
	f.check(head3, items)

	o = f.options()
	o.Recipients = nil
	if _, err := Create(t.Context(), f.store, o); err == nil || !strings.Contains(err.Error(), "recipient") {
		t.Errorf("no key and no recipients: error %v", err)
	}
}

// Without its key object a lineage key is of no use: nothing is encrypted to it.
func TestShreddedKeyIsNotUsed(t *testing.T) {
	f := newFixture(t)
	items := []item{fileItem("criu/a", text(100_000))}
	w, head, _ := f.write(f.options(), items)
	if err := os.Remove(f.path(f.keyObject(w))); err != nil {
		t.Fatal(err)
	}
	w2, head2, stats := f.write(f.next(head, w.Base()), items)
	f.check(head2, items)
	if w2.key == w.key || !stats.Full {
		t.Errorf("the shredded key is used on; stats %+v", stats)
	}
	_, head3, _ := f.write(f.next(head, nil), items)
	f.check(head3, items)
	o := f.options()
	o.Key = &w.key
	if _, err := Create(t.Context(), f.store, o); !errors.Is(err, ErrNoKey) {
		t.Errorf("key given: error %v, want ErrNoKey", err)
	}
}

// A new key in the middle of a lineage: old packs stay readable with the old one.
func TestKeyRotation(t *testing.T) {
	f := newFixture(t)
	items := []item{fileItem("criu/a", text(1<<20))}
	w, head, _ := f.write(f.options(), items)
	key, wraps, err := newKey(f.readers(f.identity.Recipient()))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.store.Put(t.Context(), w.place.key(key.KID), bytes.NewReader(wraps[0].data), int64(len(wraps[0].data))); err != nil {
		t.Fatal(err)
	}
	o := f.next(head, w.Base())
	o.Key = &key
	items = append(items, fileItem("criu/b", text(1000)))
	w2, head2, stats := f.write(o, items)
	f.check(head2, items)
	if kids := []string{w2.header.Packs[0].KID, w2.header.Packs[1].KID}; stats.Full || !slices.Equal(kids, []string{w.key.KID, key.KID}) {
		t.Errorf("packs of keys %v, stats %+v", kids, stats)
	}
}

// The same key, wrapped once more for a reader who came later.
func TestLaterReader(t *testing.T) {
	f := newFixture(t)
	items := []item{fileItem("criu/a", text(1000))}
	w, head, _ := f.write(f.options(), items)
	wrapped, err := os.ReadFile(f.path(f.keyObject(w)))
	if err != nil {
		t.Fatal(err)
	}
	secret, err := decrypt(wrapped, f.identity)
	if err != nil {
		t.Fatal(err)
	}
	if f.identity, err = age.GenerateX25519Identity(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), f.store, head, f.readOptions()); !errors.Is(err, ErrNoKey) {
		t.Fatalf("before: error %v, want ErrNoKey", err)
	}
	again, err := encrypt(secret, f.identity.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	later := w.place.keys() + w.key.KID + "-later.age"
	if err := f.store.Put(t.Context(), later, bytes.NewReader(again), int64(len(again))); err != nil {
		t.Fatal(err)
	}
	f.check(head, items)
	if c, err := Collect(t.Context(), f.store, "acme", "lin1", CollectOptions{Trusted: f.trusted}); err != nil || len(c.Marked) != 0 {
		t.Errorf("collected %v, error %v", c, err)
	}
}

func TestPostQuantum(t *testing.T) {
	f := newFixture(t)
	id, err := age.GenerateHybridIdentity()
	if err != nil {
		t.Fatal(err)
	}
	o := f.options()
	o.Recipients = []age.Recipient{id.Recipient()}
	w, head, _ := f.write(o, []item{fileItem("criu/a", text(1000))})
	if !strings.HasPrefix(w.header.Recipient, "age1pq") {
		t.Errorf("lineage key %.10s… for a post-quantum recipient", w.header.Recipient)
	}
	ro := f.readOptions()
	ro.Identities = []age.Identity{id}
	r, err := Open(t.Context(), f.store, head, ro)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Chains of snapshots of random content, cut in small frames and packs: each
// reads back as it was written, with any base.
func TestChainsOfSnapshots(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	pool := make([][]byte, 12)
	for i := range pool {
		pool[i] = text(PageSize)
	}
	pool[0] = make([]byte, PageSize)
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		f := newFixtureAt(t, shmDir(t, fmt.Sprint(run)))
		cut := cuts{frame: rapid.IntRange(1, 3).Draw(rt, "frame"), pages: rapid.Int64Range(1, 7).Draw(rt, "pages"), bytes: 64 << 10}
		o := f.options()
		o.cuts = cut
		var w *Writer
		for range rapid.IntRange(1, 4).Draw(rt, "snapshots") {
			items := drawItems(rt, pool)
			var head Head
			w, head, _ = f.write(o, items)
			f.check(head, items)
			base := w.Base()
			if rapid.Bool().Draw(rt, "load") {
				var err error
				if base, err = LoadBase(t.Context(), f.open(head)); err != nil {
					rt.Fatal(err)
				}
			}
			o = f.next(head, base)
			o.cuts = cut
		}
		os.RemoveAll(f.root)
	})
}

func drawItems(rt *rapid.T, pool [][]byte) (items []item) {
	for i := range rapid.IntRange(0, 4).Draw(rt, "files") {
		var data []byte
		for _, p := range rapid.SliceOfN(rapid.IntRange(0, len(pool)), 0, 20).Draw(rt, "pages") {
			if p < len(pool) {
				data = append(data, pool[p]...)
			} else {
				data = append(data, text(PageSize)...)
			}
		}
		data = append(data, text(rapid.IntRange(0, 2).Draw(rt, "tail")*700)...)
		items = append(items, fileItem(fmt.Sprint("criu/", i), data))
	}
	return items
}

// shmDir is a temporary directory in memory where there is such a file system.
func shmDir(t *testing.T, name string) string {
	t.Helper()
	root := t.TempDir()
	if dir, err := os.MkdirTemp("/dev/shm", "image-test-"+name+"-"); err == nil {
		root = dir
		t.Cleanup(func() { os.RemoveAll(dir) })
	}
	return root
}
