package image

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"testing"
)

// stamped writes an image of items whose stamps are their names and a version, and
// gives the names of what was read for it. before says what is stored ahead.
func (f *fixture) stamped(o WriteOptions, items []item, stamps map[string]string, before ...item) (*Writer, Head, Stats, []string) {
	f.Helper()
	w, err := Create(f.Context(), f.store, o)
	if err != nil {
		f.Fatal(err)
	}
	var read []string
	from := func(it item) func() (io.ReadCloser, error) {
		return func() (io.ReadCloser, error) {
			read = append(read, it.Name)
			return io.NopCloser(bytes.NewReader(it.data)), nil
		}
	}
	for _, it := range before {
		if _, err := w.AddAhead(stamps[it.Name], it.Size, from(it)); err != nil {
			f.Fatal(err)
		}
	}
	for _, it := range items {
		if err := w.AddStamped(it.Entry, stamps[it.Name], from(it)); err != nil {
			f.Fatal(err)
		}
	}
	head, _, stats, err := w.Commit(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	return w, head, stats, read
}

func TestStampedIsNotReadAgain(t *testing.T) {
	f := newFixture(t)
	holes := append(make([]byte, 1<<20), random(3*PageSize+7)...)
	long := text(3 << 20)
	items := []item{fileItem("volumes/a", long), fileItem("volumes/b", holes), fileItem("volumes/empty", nil), fileItem("volumes/c", random(PageSize/2))}
	stamps := map[string]string{"volumes/a": "a1", "volumes/b": "b1", "volumes/empty": "e1", "volumes/c": ""}
	w, head, _, read := f.stamped(f.options(), items, stamps)
	f.check(head, items)
	if len(read) != len(items) {
		t.Errorf("the first image read %q", read)
	}
	key, err := KeptKey(f.signer)
	if err != nil {
		t.Fatal(err)
	}
	for round := range 3 { // each from what a host keeps of the last
		kept, err := w.Base().Keep(key)
		if err != nil {
			t.Fatal(err)
		}
		base, err := RestoreBase(kept, key)
		if err != nil {
			t.Fatal(err)
		}
		items[0].data = append(slices.Clone(long), byte(round)) // changed, and its stamp with it
		items[0].Size = int64(len(items[0].data))
		stamps["volumes/a"] = fmt.Sprintf("a2 %d", round)
		var stats Stats
		w, head, stats, read = f.stamped(f.next(head, base), items, stamps)
		f.check(head, items)
		if want := []string{"volumes/a", "volumes/c"}; !slices.Equal(read, want) {
			t.Errorf("round %d read %q, want %q", round, read, want)
		}
		if stats.Full || stats.NewBytes > PageSize || stats.LogicalBytes != items[0].Size+items[1].Size+items[3].Size {
			t.Errorf("round %d: %+v", round, stats)
		}
	}
}

// What was stored ahead is taken if its stamp still holds, and is no entry else.
func TestStoredAhead(t *testing.T) {
	f := newFixture(t)
	items := []item{fileItem("volumes/same", text(2<<20)), fileItem("volumes/changed", random(9*PageSize)), fileItem("volumes/grown", random(5*PageSize))}
	before := slices.Clone(items)
	before[1].data = random(9 * PageSize)
	before[2].Size = 4 * PageSize // as it was when it was looked at
	stamps := map[string]string{"volumes/same": "s", "volumes/changed": "old", "volumes/grown": "g"}
	_, head, _, read := f.stamped(f.options(), nil, stamps, before...)
	f.check(head, nil)
	if len(read) != 3 {
		t.Errorf("ahead, %q was read", read)
	}
	o := f.options()
	w, err := Create(f.Context(), f.store, o)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	open := func(it item) func() (io.ReadCloser, error) {
		return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(it.data)), nil }
	}
	for _, it := range before {
		if _, err := w.AddAhead(stamps[it.Name], it.Size, open(it)); err != nil {
			t.Fatal(err)
		}
	}
	stamps["volumes/changed"] = "new"
	for _, it := range items {
		again := open(it)
		if it.Name == "volumes/same" {
			again = func() (io.ReadCloser, error) { t.Error("it was read again"); return open(it)() }
		}
		if err := w.AddStamped(it.Entry, stamps[it.Name], again); err != nil {
			t.Fatal(err)
		}
	}
	head, _, _, err = w.Commit(f.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.check(head, items)
}

// A base without the file, another size, or a full image has it read.
func TestStampOfAnother(t *testing.T) {
	f := newFixture(t)
	items := []item{fileItem("volumes/a", text(1<<20))}
	stamps := map[string]string{"volumes/a": "a"}
	w, head, _, _ := f.stamped(f.options(), items, stamps)
	longer := []item{fileItem("volumes/a", text(2<<20))}
	_, head2, _, read := f.stamped(f.next(head, w.Base()), longer, stamps)
	f.check(head2, longer)
	if len(read) != 1 {
		t.Error("a file of another size was taken for the same")
	}
	_, head3, stats, read := f.stamped(f.next(head, nil), items, stamps)
	f.check(head3, items)
	if len(read) != 1 || !stats.Full {
		t.Error("without a base, a file wasn't read")
	}
}

// Files that were made of an image are recognised in the next one, by what a reader was
// told of them: from the store or from what a host keeps.
func TestRestampedIsNotReadAgain(t *testing.T) {
	f := newFixture(t)
	items := []item{fileItem("volumes/a", text(3<<20)), fileItem("volumes/b", random(PageSize+5)), fileItem("volumes/empty", nil)}
	w, head, _, _ := f.stamped(f.options(), items, map[string]string{"volumes/a": "a1", "volumes/b": "b1"})
	r := f.open(head)
	defer r.Close()
	r.Restamp("volumes/a", "a2")
	r.Restamp("volumes/empty", "e2")
	r.Restamp("volumes/nowhere", "n2")
	loaded, err := LoadBase(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	for what, base := range map[string]*Base{"kept": w.Base(), "loaded": loaded} {
		base.Restamp(r)
		key, err := KeptKey(f.signer)
		if err != nil {
			t.Fatal(err)
		}
		data, err := base.Keep(key)
		if err != nil {
			t.Fatal(err)
		}
		if base, err = RestoreBase(data, key); err != nil {
			t.Fatal(err)
		}
		again, next, stats, read := f.stamped(f.next(head, base), items, map[string]string{"volumes/a": "a2", "volumes/b": "b1", "volumes/empty": "e2"})
		f.check(next, items)
		if want := []string{"volumes/b"}; !slices.Equal(read, want) || stats.NewBytes != 0 {
			t.Errorf("%s: %q was read, want %q: %+v", what, read, want, stats)
		}
		if !again.Knows("a2") || again.Knows("a1") || again.Knows("") {
			t.Errorf("%s: it knows a2: %t, a1: %t", what, again.Knows("a2"), again.Knows("a1"))
		}
	}
	other, _, _, _ := f.stamped(f.options(), items, map[string]string{"volumes/a": "a1"})
	base := other.Base()
	base.Restamp(r)
	if len(base.stamps) != 1 || base.stamps["a1"].Size == 0 {
		t.Errorf("a base took over the stamps of another snapshot: %+v", base.stamps)
	}
}
