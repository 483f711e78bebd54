package image

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/dir"
	"github.com/diapause/diapause/schemas"
)

// fixture is a store with a writer's and a reader's keys.
type fixture struct {
	*testing.T
	root     string
	store    objectstore.Store
	identity *age.X25519Identity
	signer   ed25519.PrivateKey
	seq      uint64
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return newFixtureAt(t, t.TempDir())
}

func newFixtureAt(t *testing.T, root string) *fixture {
	t.Helper()
	store, err := dir.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	_, signer, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{T: t, root: root, store: store, identity: identity, signer: signer}
}

// options are those of the session's next snapshot.
func (f *fixture) options() WriteOptions {
	f.seq++
	return WriteOptions{
		Tenant: "acme", Session: "web-42", UID: "u1", Lineage: "lin1", Epoch: 3, Seq: f.seq,
		Recipients: []age.Recipient{f.identity.Recipient()}, Signer: f.signer, SignerName: "host-a",
		Trigger: "idle", RunID: "run 7", Description: "before the <upgrade>", Op: "op-1",
		Fingerprint: schemas.Fingerprint{Arch: "amd64", Kernel: "6.1", Driver: "criu", CPU: []string{"avx2"}},
	}
}

func (f *fixture) trusted(tenant, name string) []ed25519.PublicKey {
	if tenant != "acme" || name != "host-a" {
		return nil
	}
	return []ed25519.PublicKey{f.signer.Public().(ed25519.PublicKey)}
}

func (f *fixture) readOptions() ReadOptions {
	epoch := uint64(3)
	return ReadOptions{
		Identities: []age.Identity{f.identity}, Trusted: f.trusted,
		Expect: Expect{Tenant: "acme", Session: "web-42", UID: "u1", Lineage: "lin1", Epoch: &epoch},
	}
}

// item is an entry with its content.
type item struct {
	Entry
	data []byte
}

func fileItem(name string, data []byte) item {
	return item{Entry{Name: name, Type: TypeFile, Mode: 0o644, UID: 7, GID: 8, MTime: 1234567890123456789, Size: int64(len(data))}, data}
}

// write commits an image of the items and returns its writer.
func (f *fixture) write(o WriteOptions, items []item) (*Writer, Head, Stats) {
	f.Helper()
	w, err := Create(f.Context(), f.store, o)
	if err != nil {
		f.Fatal(err)
	}
	for _, it := range items {
		if err := w.Add(it.Entry, bytes.NewReader(it.data)); err != nil {
			f.Fatal(err)
		}
	}
	head, header, stats, err := w.Commit(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	if header.Tenant != o.Tenant || header.Seq != o.Seq || header.LogicalBytes != stats.LogicalBytes || !header.Time.Equal(w.opts.Time) {
		f.Fatalf("header %+v is not of options %+v and stats %+v", header, o, stats)
	}
	return w, head, stats
}

func (f *fixture) open(head Head) *Reader {
	f.Helper()
	r, err := Open(f.Context(), f.store, head, f.readOptions())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { r.Close() })
	return r
}

// check opens an image again and compares all of it.
func (f *fixture) check(head Head, items []item) {
	f.Helper()
	r := f.open(head)
	defer r.Close()
	if err := r.Verify(f.Context()); err != nil {
		f.Fatal(err)
	}
	var want []Entry
	for _, it := range items {
		want = append(want, it.Entry)
	}
	if got := r.Entries(); !reflect.DeepEqual(got, want) {
		f.Fatalf("entries:\n%+v\nwant\n%+v", got, want)
	}
	for _, it := range items {
		if it.Type != TypeFile {
			continue
		}
		if got, err := readEntry(r, it.Name); err != nil || !bytes.Equal(got, it.data) {
			f.Fatalf("content of %q: %d bytes, error %v, want the %d that were written", it.Name, len(got), err, len(it.data))
		}
	}
}

func readEntry(r *Reader, name string) ([]byte, error) {
	rc, err := r.Open(name)
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	return io.ReadAll(rc)
}

// objects lists what is in the store.
func (f *fixture) objects() []string {
	f.Helper()
	names, err := listNames(f.Context(), f.store, "")
	if err != nil {
		f.Fatal(err)
	}
	slices.Sort(names)
	return names
}

func (f *fixture) path(name string) string { return filepath.Join(f.root, name) }

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

// text is compressible and has no two equal pages.
func text(n int) []byte { return []byte(hex.EncodeToString(random(n/2 + 1)))[:n] }

func TestRoundTrip(t *testing.T) {
	f := newFixture(t)
	big := append(append(text(3<<20), make([]byte, 2<<20)...), random(5<<20+17)...)
	xattr := map[string][]byte{"user.x": {0, 1, 0xff}, "security.capability": random(20)}
	items := []item{
		{Entry: Entry{Name: "upper", Type: TypeDir, Mode: 0o755, MTime: -5, Xattrs: xattr}},
		fileItem("criu/pages-1.img", big),
		fileItem("criu/empty.img", nil),
		fileItem("criu/one", []byte("x")),
		fileItem("upper/page", random(PageSize)),
		fileItem("upper/zero", make([]byte, 100_001)),
		fileItem("upper/bad\xff name", random(5000)),
		{Entry: Entry{Name: "upper/link", Type: TypeSymlink, Link: "../../etc/\xfe<passwd>", Mode: 0o777}},
		{Entry: Entry{Name: "upper/hard", Type: TypeHardlink, Link: "upper/page"}},
		{Entry: Entry{Name: "upper/null", Type: TypeChar, Rdev: 0x103, Mode: 0o4666}},
		{Entry: Entry{Name: "upper/sda", Type: TypeBlock, Rdev: 0x800}},
		{Entry: Entry{Name: "upper/fifo", Type: TypeFIFO, UID: 1 << 31}},
	}
	_, head, stats := f.write(f.options(), items)
	f.check(head, items)
	if !stats.Full || stats.ZeroPages != 512+25 || stats.LogicalBytes != int64(len(big))+1+PageSize+100_001+5000 {
		t.Errorf("stats %+v", stats)
	}
	if stats.NewBytes != (stats.Pages-stats.ZeroPages-stats.MatchedPages)*PageSize || stats.StoredBytes != f.storedBytes() {
		t.Errorf("stats %+v, stored %d", stats, f.storedBytes())
	}
	r := f.open(head)
	if got, err := readEntry(r, "upper/hard"); err != nil || !bytes.Equal(got, items[4].data) {
		t.Errorf("content of a hardlink: %d bytes, error %v", len(got), err)
	}
	if _, err := r.Open("upper/link"); err == nil {
		t.Error("opened a symlink")
	}
}

func (f *fixture) storedBytes() (n int64) {
	for _, name := range f.objects() {
		info, err := os.Stat(f.path(name))
		if err != nil {
			f.Fatal(err)
		}
		n += info.Size()
	}
	return n
}

// Several packs, and a file that lies across them.
func TestManyPacks(t *testing.T) {
	f := newFixture(t)
	items := []item{fileItem("criu/a", random(20<<20)), fileItem("criu/b", random(30<<20)), fileItem("criu/c", text(1000))}
	_, head, _ := f.write(f.options(), items)
	f.check(head, items)
	if n := len(f.open(head).Header().Packs); n < 3 {
		t.Errorf("%d packs for 50 MiB that don't compress", n)
	}
}

func TestReaderAt(t *testing.T) {
	f := newFixture(t)
	data := append(append(random(3<<20+100), make([]byte, 1<<20)...), text(2<<20)...)
	_, head, _ := f.write(f.options(), []item{fileItem("criu/a", random(5000)), fileItem("criu/x", data)})
	r := f.open(head)
	at, size, err := r.ReaderAt("criu/x")
	if err != nil || size != int64(len(data)) {
		t.Fatalf("size %d, error %v", size, err)
	}
	for _, c := range [][2]int{{0, 1}, {4095, 2}, {1 << 20, 1 << 20}, {3<<20 - 5, 1<<20 + 300}, {len(data) - 1, 1}, {len(data), 0}, {77, 0}} {
		got := make([]byte, c[1])
		if n, err := at.ReadAt(got, int64(c[0])); n != c[1] || err != nil {
			t.Errorf("%v: %d bytes, error %v", c, n, err)
		}
		if !bytes.Equal(got, data[c[0]:c[0]+c[1]]) {
			t.Errorf("%v: wrong bytes", c)
		}
	}
	if n, err := at.ReadAt(make([]byte, 10), size-3); n != 3 || err != io.EOF {
		t.Errorf("across the end: %d bytes, error %v, want 3 and EOF", n, err)
	}
	if _, err := at.ReadAt(make([]byte, 1), -1); err == nil {
		t.Error("negative offset: no error")
	}
	all, err := io.ReadAll(io.NewSectionReader(at, 0, size))
	if err != nil || !bytes.Equal(all, data) {
		t.Errorf("all of it: %d bytes, error %v", len(all), err)
	}
}

// A file that content is placed in has holes where that is zero.
func TestPlaceAndSparseFile(t *testing.T) {
	f := newFixture(t)
	src, err := os.Create(filepath.Join(t.TempDir(), "src"))
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	const size = 2 << 30
	for off, data := range map[int64][]byte{0: random(10), 1<<30 + 5: random(100_000), size - 3: []byte("end")} {
		if _, err := src.WriteAt(data, off); err != nil {
			t.Fatal(err)
		}
	}
	sparse, err := SparseFile(src)
	if err != nil {
		t.Fatal(err)
	}
	w, err := Create(t.Context(), f.store, f.options())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add(Entry{Name: "upper/sparse", Type: TypeFile, Size: -1}, sparse); err != nil {
		t.Fatal(err)
	}
	head, _, stats, err := w.Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if stats.LogicalBytes != size || stats.Pages != size/PageSize || stats.Pages-stats.ZeroPages > 40 {
		t.Errorf("stats %+v", stats)
	}
	f.checkSparse(head, src)
}

func (f *fixture) checkSparse(head Head, src *os.File) {
	f.Helper()
	dst, err := os.Create(filepath.Join(f.TempDir(), "dst"))
	if err != nil {
		f.Fatal(err)
	}
	defer dst.Close()
	if err := dst.Truncate(2 << 30); err != nil {
		f.Fatal(err)
	}
	if err := f.open(head).Place(f.Context(), []Target{{"upper/sparse", dst}}); err != nil {
		f.Fatal(err)
	}
	for _, part := range [][2]int64{{0, 1 << 16}, {1 << 30, 1 << 20}, {2<<30 - 1<<16, 1 << 16}} {
		want, got := make([]byte, part[1]), make([]byte, part[1])
		if _, err := src.ReadAt(want, part[0]); err != nil {
			f.Fatal(err)
		}
		if _, err := dst.ReadAt(got, part[0]); err != nil || !bytes.Equal(got, want) {
			f.Errorf("at %d: error %v, or other bytes", part[0], err)
		}
	}
	if blocks := blocksOf(f, dst); blocks > 1<<20 {
		f.Errorf("the copy takes %d bytes of disk", blocks)
	}
}

// What reaches the store holds nothing of what was put in.
func TestNoPlaintextInStore(t *testing.T) {
	f := newFixture(t)
	secret := "SECRET-" + hex.EncodeToString(random(16))
	_, head, _ := f.write(f.options(), []item{
		fileItem("upper/"+secret, []byte(strings.Repeat(secret, 1000))),
		{Entry: Entry{Name: "upper/l", Type: TypeSymlink, Link: secret, Xattrs: map[string][]byte{"user.s": []byte(secret)}}},
	})
	if head.Name != "acme/lin1/snaps/3-1" {
		t.Errorf("head %+v", head)
	}
	for _, name := range f.objects() {
		data, err := os.ReadFile(f.path(name))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte(secret)) || strings.Contains(name, secret) {
			t.Errorf("%s holds the secret", name)
		}
	}
}
