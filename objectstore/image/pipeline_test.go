package image

import (
	"bytes"
	"fmt"
	"io"
	"testing"
)

// A first image is coded for speed where repeats are short, for size if asked to,
// and always when it follows another; all of it reads the same.
func TestFastAndDense(t *testing.T) {
	f := newFixture(t)
	items := []item{fileItem("criu/pages-1.img", memory(6<<20))}
	o := f.options()
	w, head, fast := f.write(o, items)
	f.check(head, items)
	o = f.options()
	o.Dense = true
	_, head, dense := f.write(o, items)
	f.check(head, items)
	if fast.StoredBytes <= dense.StoredBytes || fast.StoredBytes > dense.StoredBytes*3/2 {
		t.Errorf("coded fast it takes %d bytes, dense %d", fast.StoredBytes, dense.StoredBytes)
	}
	other := memory(12 << 20)[6<<20:]
	_, head, next := f.write(f.next(w.head, w.Base()), []item{fileItem("criu/pages-1.img", other)})
	f.check(head, []item{fileItem("criu/pages-1.img", other)})
	if next.Full || next.StoredBytes > dense.StoredBytes*11/10 {
		t.Errorf("the next image, of as much that is new: %d bytes, full %v; want some %d", next.StoredBytes, next.Full, dense.StoredBytes)
	}
}

// What repeats in long stretches is never left to the fast way.
func TestRepetitiveIsDense(t *testing.T) {
	f := newFixture(t)
	data := bytes.Repeat([]byte("the same line of a log, again and again\n"), 100_000)
	for at := 0; at < len(data); at += PageSize {
		copy(data[at:], fmt.Sprint(at)) // no page is like another
	}
	items := []item{fileItem("criu/pages-1.img", data)}
	_, head, stats := f.write(f.options(), items)
	f.check(head, items)
	if stats.StoredBytes*10 > int64(len(data)) {
		t.Errorf("%d bytes take %d", len(data), stats.StoredBytes)
	}
}

// Content of unknown size comes through a pipe, in pieces of any size, in the time
// that its source takes.
func TestAddFromPipe(t *testing.T) {
	f := newFixture(t)
	data := memory(5<<20 + PageSize)[:5<<20+77]
	w, err := Create(t.Context(), f.store, f.options())
	if err != nil {
		t.Fatal(err)
	}
	for n, step := range []int{1 << 21, 65536, 5000} {
		r, source := io.Pipe()
		go func() {
			var err error
			for rest := data; len(rest) > 0 && err == nil; {
				n := min(len(rest), step)
				_, err = source.Write(rest[:n])
				rest = rest[n:]
			}
			source.CloseWithError(err)
		}()
		if err := w.Add(Entry{Name: fmt.Sprintf("criu/pages-%d.img", n), Type: TypeFile, Size: -1}, r); err != nil {
			t.Fatal(err)
		}
	}
	head, _, stats, err := w.Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if stats.NewBytes != pages(int64(len(data)))*PageSize {
		t.Errorf("three times the same stored %d bytes", stats.NewBytes)
	}
	for n := range 3 {
		rc, err := f.open(head).Open(fmt.Sprintf("criu/pages-%d.img", n))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(rc); err != nil || !bytes.Equal(got, data) {
			t.Errorf("file %d came back as %d bytes, %v", n, len(got), err)
		}
	}
}

// What is read goes into room for a small file first, and a frame begins as small: sizes
// around both, small ones after large ones and the other way round, come back whole.
func TestSizesAroundTheRoomThereIs(t *testing.T) {
	f := newFixture(t)
	var items []item
	for _, around := range []int{0, PageSize, inline, 2 * inline, smallFrame, chunkSize, chunkSize + inline, 2 * chunkSize} {
		for _, size := range []int{around - 1, around, around + 1} {
			if size >= 0 {
				items = append(items, fileItem(fmt.Sprint("up", size, len(items)), random(size)))
				items = append([]item{fileItem(fmt.Sprint("down", size, len(items)), random(size))}, items...)
			}
		}
	}
	_, head, _ := f.write(f.options(), items)
	f.check(head, items)
}

// A source that fails, or a store that does, ends an image in the middle of what
// is being hashed; nothing hangs.
func TestPipelineFails(t *testing.T) {
	f := newFixture(t)
	w, err := Create(t.Context(), f.store, f.options())
	if err != nil {
		t.Fatal(err)
	}
	broken := io.MultiReader(bytes.NewReader(memory(3<<20)), brokenSource{})
	if err := w.Add(Entry{Name: "x", Type: TypeFile, Size: -1}, broken); err == nil {
		t.Error("a source that fails made a file")
	}
	if _, _, _, err := w.Commit(t.Context()); err == nil {
		t.Error("an image was committed without its file")
	}
	w.Abort()
}

type brokenSource struct{}

func (brokenSource) Read([]byte) (int, error) { return 0, io.ErrNoProgress }

// Pages of files match pages of memory and of other files, in one image and the
// next, wherever in the session they are.
func TestFilesAreMatched(t *testing.T) {
	f := newFixture(t)
	library := memory(40 * PageSize)
	first := []item{fileItem("lower/usr/lib/libc.so", library), fileItem("upper/copy.so", library), fileItem("criu/pages-1.img", library[8*PageSize:20*PageSize])}
	w, head, stats := f.write(f.options(), first)
	f.check(head, first)
	if stats.NewBytes != int64(len(library)) {
		t.Errorf("one content in three places stored %d bytes of %d", stats.NewBytes, len(library))
	}
	second := []item{fileItem("upper/moved/elsewhere.so", library), fileItem("lower/usr/bin/new", []byte("a new file"))}
	_, head, stats = f.write(f.next(head, w.Base()), second)
	f.check(head, second)
	if stats.NewBytes != PageSize {
		t.Errorf("a file that was moved stored %d bytes", stats.NewBytes-PageSize)
	}
}

// A large session has more packs than the budget allows to small ones.
func TestBudgetOfLargeSessions(t *testing.T) {
	packs := func(n int, size int64) *Base {
		b := &Base{}
		for range n {
			var p basePack
			p.Size = size
			b.packs = append(b.packs, p)
		}
		return b
	}
	for _, c := range []struct {
		count int
		size  int64
		full  bool
	}{{0, 0, true}, {256, 1000, false}, {257, 1000, true}, {400, usual.bytes, false}, {600, usual.bytes / 4, true}} {
		if got := packs(c.count, c.size).exceeds(Budget{}); got != c.full {
			t.Errorf("%d packs of %d bytes: full %v", c.count, c.size, got)
		}
	}
}

// How far an image is can be asked while it is written and while it is read.
func TestTakenAndGiven(t *testing.T) {
	f := newFixture(t)
	items := []item{fileItem("a", random(5<<20)), fileItem("b", text(1<<20))}
	w, err := Create(t.Context(), f.store, f.options())
	if err != nil {
		t.Fatal(err)
	}
	var sofar int64
	for _, it := range items {
		if err := w.Add(it.Entry, bytes.NewReader(it.data)); err != nil {
			t.Fatal(err)
		}
		if sofar += it.Size; w.Taken() != sofar {
			t.Errorf("after %s it has taken %d, want %d", it.Name, w.Taken(), sofar)
		}
	}
	head, _, _, err := w.Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := f.open(head)
	defer r.Close()
	if r.Given() != 0 {
		t.Errorf("unread, it gave %d", r.Given())
	}
	if err := r.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r.Given() < sofar {
		t.Errorf("read from end to end, it gave %d of %d", r.Given(), sofar)
	}
}
