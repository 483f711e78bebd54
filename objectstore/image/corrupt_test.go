package image

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"filippo.io/age"
)

// flip changes one bit of a file; a negative offset counts from its end.
func flip(t *testing.T, path string, off int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if off < 0 {
		off += len(data)
	}
	data[off] ^= 0x10
	replace(t, path, data)
}

func replace(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// refused says whether an error is one of a damaged or forged image.
func refused(err error) bool {
	return errors.Is(err, ErrCorrupt) || errors.Is(err, ErrForged) || errors.Is(err, ErrNoKey)
}

// tryAll reads an image in every way that there is. It fails the test if any way
// gives other bytes than those written, and returns the errors it met.
func (f *fixture) tryAll(head Head, items []item) (errs []error) {
	f.Helper()
	r, err := Open(f.Context(), f.store, head, f.readOptions())
	if err != nil {
		return []error{err}
	}
	defer r.Close()
	for _, it := range items {
		got, err := readEntry(r, it.Name)
		if err != nil {
			errs = append(errs, err)
		}
		if !bytes.HasPrefix(it.data, got) || err == nil && len(got) != len(it.data) {
			f.Errorf("%s: %d wrong bytes were handed out, error %v", it.Name, len(got), err)
		}
	}
	if _, err := LoadBase(f.Context(), r); err != nil {
		errs = append(errs, err)
	}
	if err := r.Verify(f.Context()); err != nil {
		errs = append(errs, err)
	} else if errs != nil {
		f.Errorf("Verify finds nothing wrong, but there is: %v", errs)
	}
	return errs
}

// chain writes two snapshots, the second of which needs the first one's packs.
func (f *fixture) chain() (Head, []item) {
	f.Helper()
	shared := fileItem("criu/a", append(text(200_000), random(1100_000)...))
	w, head, _ := f.write(f.options(), []item{shared})
	items := []item{shared, fileItem("criu/b", text(50_000))}
	_, head, _ = f.write(f.next(head, w.Base()), items)
	return head, items
}

// Any change in any object that the image consists of is detected,
// and named, before anything of it is handed out.
func TestEveryDamageIsRefused(t *testing.T) {
	f := newFixtureAt(t, shmDir(t, "damage"))
	head, items := f.chain()
	if errs := f.tryAll(head, items); errs != nil {
		t.Fatal(errs)
	}
	for _, name := range f.objects() {
		if strings.HasSuffix(name, "snaps/3-1") {
			continue // the first snapshot's header is no part of the second
		}
		good, err := os.ReadFile(f.path(name))
		if err != nil {
			t.Fatal(err)
		}
		for what, bad := range damages(good) {
			replace(t, f.path(name), bad)
			f.wantRefused(head, items, name, what)
		}
		os.Remove(f.path(name))
		if !strings.Contains(name, "/snaps/") {
			named, _, _ := strings.Cut(name, "-") // of a key its id, without the names of its wraps
			f.wantRefused(head, items, named, "missing")
		}
		replace(t, f.path(name), good)
	}
	if errs := f.tryAll(head, items); errs != nil {
		t.Fatal(errs)
	}
}

func (f *fixture) wantRefused(head Head, items []item, name, what string) {
	f.Helper()
	errs := f.tryAll(head, items)
	if len(errs) == 0 {
		f.Errorf("%s: %s was not noticed", name, what)
	}
	for _, err := range errs {
		if !refused(err) || !strings.Contains(err.Error(), name) {
			f.Errorf("%s: %s: error %v, want one that names the object", name, what, err)
		}
	}
}

// damages gives damaged copies of an object: a bit flipped in each part of it,
// and its end missing, doubled or exchanged.
func damages(good []byte) map[string][]byte {
	bad := map[string][]byte{
		"empty":        {},
		"one byte":     good[:1],
		"half of it":   good[:len(good)/2],
		"end missing":  good[:len(good)-1],
		"byte more":    append(bytes.Clone(good), 0),
		"twice":        append(bytes.Clone(good), good...),
		"all zeros":    make([]byte, len(good)),
		"begin zeroed": append(make([]byte, 16), good[16:]...),
	}
	spots := []int{0, 5, 17, 18, 30, 100, 200, 250, len(good) - 1, len(good) - 17}
	for i := range 8 {
		spots = append(spots, i*len(good)/8)
	}
	for _, at := range spots {
		if at < 0 || at >= len(good) {
			continue
		}
		b := bytes.Clone(good)
		b[at] ^= 0x10
		bad[fmt.Sprintf("bit flipped at %d", at)] = b
	}
	return bad
}

func TestSwappedPacks(t *testing.T) {
	f := newFixture(t)
	head, items := f.chain()
	o := f.options()
	o.Session, o.Lineage = "other", "lin2"
	foreign, _, _ := f.write(o, items)
	packs := f.open(head).packs
	first, second := f.path(packs[0].name), f.path(packs[1].name)
	for what, from := range map[string]string{
		"of the same lineage": second, "of another session": f.path(foreign.place.pack(foreign.header.Packs[0].Name)),
	} {
		good, err := os.ReadFile(first)
		if err != nil {
			t.Fatal(err)
		}
		bad, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		replace(t, first, bad)
		f.wantRefused(head, items, packs[0].name, "pack "+what)
		replace(t, first, good)
	}
}

// The lineage key's public half is in the clear: anyone can encrypt to it. What
// they make is refused, even where it decrypts well and has the right size.
func TestEncryptedBySomeoneElse(t *testing.T) {
	f := newFixture(t)
	head, items := f.chain()
	r := f.open(head)
	id, err := r.identity(r.header.KID)
	if err != nil {
		t.Fatal(err)
	}
	to, err := LineageKey{r.header.KID, r.header.Recipient}.recipient()
	if err != nil {
		t.Fatal(err)
	}
	s, err := fetchHeader(t.Context(), f.store, head.Name)
	if err != nil {
		t.Fatal(err)
	}
	pack := r.header.Packs[0].Name
	for name, clear := range map[string]int64{head.Name: s.size, r.place.pack(pack): 0, r.place.ids(pack): 0} {
		good, err := os.ReadFile(f.path(name))
		if err != nil {
			t.Fatal(err)
		}
		plain, err := decrypt(good[clear:], id)
		if err != nil {
			t.Fatal(err)
		}
		again, err := encrypt(plain, to)
		if err != nil {
			t.Fatal(err)
		}
		replace(t, f.path(name), append(bytes.Clone(good[:clear]), again...))
		f.wantRefused(head, items, name, "encrypted again")
		if r, err := Open(t.Context(), f.store, head, f.readOptions()); err == nil && name == r.place.pack(pack) {
			if data, err := readEntry(r, items[0].Name); err == nil {
				t.Errorf("%s: %d bytes were handed out", name, len(data))
			}
			r.Close()
		}
		replace(t, f.path(name), good)
	}
}

// Another snapshot of the same name and host, well signed: not the one recorded.
func TestAnotherOfTheSameName(t *testing.T) {
	f := newFixture(t)
	o := f.options()
	_, head, _ := f.write(o, []item{fileItem("criu/a", text(1000))})
	if err := f.store.Delete(t.Context(), head.Name); err != nil {
		t.Fatal(err)
	}
	f.write(o, []item{fileItem("criu/a", text(1000))})
	if _, err := Open(t.Context(), f.store, head, f.readOptions()); !errors.Is(err, ErrForged) {
		t.Errorf("error %v, want ErrForged", err)
	}
}

// A pack that is exchanged after some of it has been read and verified.
func TestPackChangesWhileRead(t *testing.T) {
	f := newFixture(t)
	data := random(4 << 20)
	_, head, _ := f.write(f.options(), []item{fileItem("criu/a", data)})
	r := f.open(head)
	at, _, err := r.ReaderAt("criu/a")
	if err != nil {
		t.Fatal(err)
	}
	page := make([]byte, PageSize)
	if _, err := at.ReadAt(page, 0); err != nil || !bytes.Equal(page, data[:PageSize]) {
		t.Fatalf("first page: error %v, or other bytes", err)
	}
	replace(t, f.path(r.packs[0].name), make([]byte, 4<<20+1000))
	n, err := at.ReadAt(page, 2<<20)
	if !errors.Is(err, ErrCorrupt) || n != 0 {
		t.Fatalf("after the change: %d bytes, error %v, want ErrCorrupt", n, err)
	}
	if _, err := at.ReadAt(page, 0); err != nil || !bytes.Equal(page, data[:PageSize]) {
		t.Fatalf("what had been verified: error %v, or other bytes", err)
	}
}

func TestOlderSnapshotInPlace(t *testing.T) {
	f := newFixture(t)
	items := []item{fileItem("criu/a", text(1000))}
	_, old, _ := f.write(f.options(), items)
	_, head, _ := f.write(f.options(), items)
	data, err := os.ReadFile(f.path(old.Name))
	if err != nil {
		t.Fatal(err)
	}
	replace(t, f.path(head.Name), data)
	if _, err := Open(t.Context(), f.store, head, f.readOptions()); !errors.Is(err, ErrForged) {
		t.Errorf("older snapshot under the head's name: error %v, want ErrForged", err)
	}
	moved := Head{Name: head.Name, Digest: old.Digest}
	if _, err := Open(t.Context(), f.store, moved, f.readOptions()); !errors.Is(err, ErrForged) {
		t.Errorf("header under another name: error %v, want ErrForged", err)
	}
	if all, err := List(t.Context(), f.store, "acme", "lin1", f.trusted); err != nil || len(all) != 2 || !errors.Is(all[1].Err, ErrForged) {
		t.Errorf("list: %+v, error %v", all, err)
	}
}

func TestUntrustedWriters(t *testing.T) {
	f := newFixture(t)
	stranger := newFixtureAt(t, f.root)
	o := f.options()
	o.Signer = stranger.signer // encrypted for us, in the name of our host
	_, head, _ := f.write(o, nil)
	if _, err := Open(t.Context(), f.store, head, f.readOptions()); !errors.Is(err, ErrForged) {
		t.Errorf("wrong signature: error %v, want ErrForged", err)
	}
	o = f.options()
	o.SignerName = "host-z"
	_, head, _ = f.write(o, nil)
	if _, err := Open(t.Context(), f.store, head, f.readOptions()); !errors.Is(err, ErrForged) || !strings.Contains(err.Error(), "host-z") {
		t.Errorf("unknown host: error %v, want ErrForged", err)
	}
	ro := f.readOptions()
	ro.Trusted = nil
	_, head, _ = f.write(f.options(), nil)
	if _, err := Open(t.Context(), f.store, head, ro); !errors.Is(err, ErrForged) {
		t.Errorf("no writer trusted: error %v, want ErrForged", err)
	}
	unsigned, digest := f.unsign(head)
	replace(t, f.path(head.Name), unsigned)
	if _, err := Open(t.Context(), f.store, Head{Name: head.Name, Digest: digest}, f.readOptions()); !errors.Is(err, ErrForged) {
		t.Errorf("no signature: error %v, want ErrForged", err)
	}
}

// unsign empties the signature's line.
func (f *fixture) unsign(head Head) ([]byte, string) {
	f.Helper()
	data, err := os.ReadFile(f.path(head.Name))
	if err != nil {
		f.Fatal(err)
	}
	lines := bytes.SplitN(data, []byte("\n"), 4)
	lines[2] = nil
	return bytes.Join(lines, []byte("\n")), hexDigest(append(append(append(lines[0:1:1][0], '\n'), lines[1]...), '\n'))
}

func TestExpectations(t *testing.T) {
	f := newFixture(t)
	_, head, _ := f.write(f.options(), nil)
	other := uint64(99)
	for what, e := range map[string]Expect{
		"tenant": {Tenant: "x"}, "session": {Session: "x"}, "uid": {UID: "x"}, "lineage": {Lineage: "x"},
		"host": {Signer: "x"}, "epoch": {Epoch: &other}, "sequence": {Seq: &other},
	} {
		o := f.readOptions()
		o.Expect = e
		if _, err := Open(t.Context(), f.store, head, o); !errors.Is(err, ErrForged) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: error %v, want ErrForged that names it", what, err)
		}
	}
}

func TestWrongKey(t *testing.T) {
	f := newFixture(t)
	items := []item{fileItem("criu/a", text(1000))}
	w, head, _ := f.write(f.options(), items)
	wrong, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for what, ids := range map[string][]age.Identity{"wrong": {wrong}, "none": nil} {
		o := f.readOptions()
		o.Identities = ids
		if _, err := Open(t.Context(), f.store, head, o); !errors.Is(err, ErrNoKey) {
			t.Errorf("%s identity: error %v, want ErrNoKey", what, err)
		}
	}
	f.check(head, items)

	// A key of an attacker, wrapped to us, in the place of the lineage's.
	_, wraps, err := newKey(f.readers(f.identity.Recipient()))
	if err != nil {
		t.Fatal(err)
	}
	keyPath := f.path(f.keyObject(w))
	replace(t, keyPath, wraps[0].data)
	if _, err := Open(t.Context(), f.store, head, f.readOptions()); !errors.Is(err, ErrForged) {
		t.Errorf("another key in place: error %v, want ErrForged", err)
	}
	os.Remove(keyPath)
	if _, err := Open(t.Context(), f.store, head, f.readOptions()); !errors.Is(err, ErrNoKey) {
		t.Errorf("shredded: error %v, want ErrNoKey", err)
	}
}

func TestOpenBadNames(t *testing.T) {
	f := newFixture(t)
	for _, name := range []string{"", "x", "a/b/snaps/", "a/b/snaps/1", "a/b/snaps/01-1", "a/b/packs/1-1", "../b/snaps/1-1", "a/b/snaps/1-1/x"} {
		if _, err := Open(t.Context(), f.store, Head{Name: name}, f.readOptions()); err == nil {
			t.Errorf("head %q: no error", name)
		}
	}
	if _, err := Open(t.Context(), f.store, Head{Name: "a/b/snaps/1-1"}, f.readOptions()); !errors.Is(err, ErrNotFound) {
		t.Errorf("no such snapshot: error %v, want ErrNotFound", err)
	}
}
