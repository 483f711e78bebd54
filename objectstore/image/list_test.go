package image

import (
	"crypto/ed25519"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestList(t *testing.T) {
	f := newFixture(t)
	var want []string
	for _, at := range [][2]uint64{{2, 9}, {10, 1}, {10, 2}, {10, 11}, {9, 3}} {
		o := f.options()
		o.Epoch, o.Seq = at[0], at[1]
		_, head, _ := f.write(o, nil)
		want = append(want, head.Name)
	}
	want = []string{want[0], want[4], want[1], want[2], want[3]}
	broken, stray := want[1], "acme/lin1/snaps/stray"
	flip(t, f.path(broken), 40)
	if err := os.WriteFile(f.path(stray), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := List(t.Context(), f.store, "acme", "lin1", f.trusted)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range all {
		got = append(got, s.Head.Name)
		bad := s.Head.Name == broken || s.Head.Name == stray
		if (s.Err != nil) != bad || bad && !errors.Is(s.Err, ErrCorrupt) && !errors.Is(s.Err, ErrForged) {
			t.Errorf("%s: error %v", s.Head.Name, s.Err)
		}
		if !bad {
			f.openListed(s)
		}
	}
	if !slices.Equal(got, append([]string{stray}, want...)) {
		t.Errorf("listed %v, want %v", got, want)
	}
	if all, err := List(t.Context(), f.store, "acme", "other", f.trusted); err != nil || len(all) != 0 {
		t.Errorf("an empty lineage: %v, error %v", all, err)
	}
}

func (f *fixture) openListed(s Listed) {
	f.Helper()
	o := f.readOptions()
	o.Expect.Epoch = &s.Header.Epoch
	r, err := Open(f.Context(), f.store, s.Head, o)
	if err != nil {
		f.Errorf("open %s as listed: %v", s.Head.Name, err)
		return
	}
	r.Close()
}

func TestDeleteSnapshot(t *testing.T) {
	f := newFixture(t)
	shared, own := text(1<<20), text(1<<20)
	first := []item{fileItem("criu/a", shared)}
	second := []item{fileItem("criu/a", shared), fileItem("criu/b", own)}
	w, head1, _ := f.write(f.options(), first)
	_, head2, _ := f.write(f.next(head1, w.Base()), second)

	for range 2 { // the second time there is nothing to do
		if err := DeleteSnapshot(t.Context(), f.store, "acme", "lin1", head1.Name, f.trusted, always); err != nil {
			t.Fatal(err)
		}
		f.check(head2, second)
		if packs := f.under("packs/"); len(packs) != 4 {
			t.Errorf("packs %v: want two and their ids, which the second snapshot needs", packs)
		}
	}
	if _, err := Open(t.Context(), f.store, head1, f.readOptions()); !errors.Is(err, ErrNotFound) {
		t.Errorf("open a deleted snapshot: error %v", err)
	}
	if err := DeleteSnapshot(t.Context(), f.store, "acme", "lin1", head2.Name, f.trusted, always); err != nil {
		t.Fatal(err)
	}
	if left := f.objects(); len(left) != 1 || !strings.HasPrefix(left[0], "acme/lin1/keys/") {
		t.Errorf("left %v, want the key alone", left)
	}
}

// What an unreadable header needs is unknown: no pack goes.
func TestDeleteSnapshotBesideUnreadable(t *testing.T) {
	f := newFixture(t)
	items := []item{fileItem("criu/a", text(1<<20))}
	w, head1, _ := f.write(f.options(), items)
	_, head2, _ := f.write(f.next(head1, w.Base()), items)
	noKeys := func(string, string) []ed25519.PublicKey { return nil }
	_, head3, _ := f.write(f.options(), items)
	flip(t, f.path(head2.Name), 100)
	err := DeleteSnapshot(t.Context(), f.store, "acme", "lin1", head1.Name, f.trusted, always)
	if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrForged) {
		t.Errorf("error %v, want it to say that a header can't be read", err)
	}
	err = DeleteSnapshot(t.Context(), f.store, "acme", "lin1", head3.Name, noKeys, always)
	if !errors.Is(err, ErrForged) {
		t.Errorf("unknown writer: error %v, want ErrForged", err)
	}
	if packs := f.under("packs/"); len(packs) != 4 {
		t.Errorf("packs %v, want all four objects", packs)
	}
	flip(t, f.path(head2.Name), 100)
	f.check(head2, items)
	if err := DeleteSnapshot(t.Context(), f.store, "acme", "lin1", "acme/lin1/packs/x", f.trusted, always); err == nil {
		t.Error("deleted what is no snapshot")
	}
}

func TestDeleteLineage(t *testing.T) {
	f := newFixture(t)
	items := []item{fileItem("criu/a", text(1000))}
	f.write(f.options(), items)
	o := f.options()
	o.Lineage = "lin10"
	_, other, _ := f.write(o, items)
	if err := DeleteLineage(t.Context(), f.store, "acme", "lin1"); err != nil {
		t.Fatal(err)
	}
	for _, name := range f.objects() {
		if !strings.HasPrefix(name, "acme/lin10/") {
			t.Errorf("left: %s", name)
		}
	}
	ro := f.readOptions()
	ro.Expect.Lineage = ""
	if _, err := Open(t.Context(), f.store, other, ro); err != nil {
		t.Errorf("another lineage: %v", err)
	}
	if err := DeleteLineage(t.Context(), f.store, "acme", "lin1"); err != nil {
		t.Errorf("again: %v", err)
	}
	for _, bad := range []string{"", "..", "a/b"} {
		if err := DeleteLineage(t.Context(), f.store, "acme", bad); err == nil {
			t.Errorf("lineage %q: no error", bad)
		}
	}
}
