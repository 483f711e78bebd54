package image

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// always says that no session goes on from a snapshot.
func always(context.Context) (bool, error) { return true, nil }

func (f *fixture) collect(o CollectOptions) Collected {
	f.Helper()
	o.Trusted = f.trusted
	c, err := Collect(f.Context(), f.store, "acme", "lin1", o)
	if err != nil {
		f.Fatal(err)
	}
	return c
}

// A capture that never came to its end leaves a pack, its ids and a key: they are
// marked by one run, deleted by a later one.
func TestCollect(t *testing.T) {
	f := newFixture(t)
	items := []item{fileItem("criu/a", text(1<<20))}
	_, head, _ := f.write(f.options(), items)
	// What is kept beside the images isn't the collection's.
	if err := f.store.Put(t.Context(), "acme/lin1/output/1.age", strings.NewReader("last words"), 10); err != nil {
		t.Fatal(err)
	}
	want := f.objects()
	_, lost, _ := f.write(f.options(), items)
	if err := os.Remove(f.path(lost.Name)); err != nil {
		t.Fatal(err)
	}
	if c := f.collect(CollectOptions{Wait: time.Hour}); len(c.Marked)+len(c.Deleted) != 0 {
		t.Fatalf("of the last hour: %+v", c)
	}
	before := f.objects()
	if c := f.collect(CollectOptions{DryRun: true}); len(c.Marked) != 3 || !slices.Equal(f.objects(), before) {
		t.Fatalf("dry run: %+v, objects changed: %v", c, !slices.Equal(f.objects(), before))
	}
	if c := f.collect(CollectOptions{}); len(c.Marked) != 3 || len(c.Deleted) != 0 {
		t.Fatalf("first run: %+v, want a pack, its ids and a key marked", c)
	}
	if c := f.collect(CollectOptions{}); len(c.Deleted) != 3 || c.Bytes < 1000 {
		t.Fatalf("second run: %+v, want three deleted", c)
	}
	if got := f.objects(); !slices.Equal(got, want) {
		t.Errorf("left: %v, want %v", got, want)
	}
	f.check(head, items)
	if c := f.collect(CollectOptions{}); len(c.Marked)+len(c.Deleted) != 0 {
		t.Errorf("again: %+v", c)
	}
}

// A capture that has matched pages of what is marked meanwhile doesn't commit.
func TestCommitBesideCollection(t *testing.T) {
	f := newFixture(t)
	items := []item{fileItem("criu/a", text(1<<20))}
	w, head, _ := f.write(f.options(), items)
	next, err := Create(t.Context(), f.store, f.next(head, w.Base()))
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range items {
		if err := next.Add(it.Entry, bytes.NewReader(it.data)); err != nil {
			t.Fatal(err)
		}
	}
	// As if nothing named its packs any more.
	if err := os.Rename(f.path(head.Name), f.path("away")); err != nil {
		t.Fatal(err)
	}
	f.collect(CollectOptions{})
	if _, _, _, err := next.Commit(t.Context()); !errors.Is(err, ErrBaseGone) {
		t.Fatalf("commit: %v, want ErrBaseGone", err)
	}
	next.Abort()
	// Named again, it is unmarked, and matched again.
	if err := os.Rename(f.path("away"), f.path(head.Name)); err != nil {
		t.Fatal(err)
	}
	f.collect(CollectOptions{})
	if marks := f.under("marks/"); len(marks) != 0 {
		t.Errorf("marks %v stay", marks)
	}
	_, head2, stats := f.write(f.next(head, w.Base()), items)
	if stats.Full {
		t.Error("written in full")
	}
	f.check(head2, items)
}

func TestSnapshotInUseStays(t *testing.T) {
	f := newFixture(t)
	items := []item{fileItem("criu/a", text(100_000))}
	_, head, _ := f.write(f.options(), items)
	err := DeleteSnapshot(t.Context(), f.store, "acme", "lin1", head.Name, f.trusted, func(ctx context.Context) (bool, error) {
		if marked, err := Marked(ctx, f.store, head); err != nil || !marked {
			t.Errorf("asked before the mark was there (%v)", err)
		}
		return false, nil
	})
	if !errors.Is(err, ErrInUse) {
		t.Errorf("delete: %v, want ErrInUse", err)
	}
	if marked, err := Marked(t.Context(), f.store, head); err != nil || marked {
		t.Errorf("marked %v, %v; want the mark taken back", marked, err)
	}
	f.check(head, items)
	if err := DeleteSnapshot(t.Context(), f.store, "acme", "lin1", head.Name, f.trusted, always); err != nil {
		t.Fatal(err)
	}
	if marked, err := Marked(t.Context(), f.store, head); err != nil || !marked {
		t.Errorf("marked %v, %v; want a snapshot that is gone to count as marked", marked, err)
	}
}

// For all objects, marks, names and times: what is named stays, what isn't is
// deleted only after it was marked for the wait, and marks don't pile up.
func TestPlanCollect(t *testing.T) {
	l := lineage{"acme", "lin1"}
	rapid.Check(t, func(rt *rapid.T) {
		now := time.Unix(1_000_000, 0)
		wait := time.Duration(rapid.IntRange(0, 100).Draw(rt, "wait")) * time.Second
		all, named := map[string]stored{}, map[string]bool{}
		for _, name := range []string{l.pack("a"), l.ids("a"), l.pack("b"), l.key("k"), l.snap(1, 1)} {
			age := func(what string) stored {
				return stored{at: now.Add(-time.Duration(rapid.IntRange(-5, 200).Draw(rt, what)) * time.Second)}
			}
			if rapid.Bool().Draw(rt, "there") {
				all[name] = age("age")
			}
			if rapid.Bool().Draw(rt, "marked") {
				all[l.mark(name)] = age("mark's age")
			}
			if named[name] = rapid.Bool().Draw(rt, "named"); strings.HasPrefix(name, l.snaps()) {
				named[name] = false
			}
		}
		p := planCollect(l, all, named, now, wait)
		for _, name := range p.delete {
			m, marked := all[l.mark(name)]
			if named[name] || !marked || now.Sub(m.at) < wait || strings.HasPrefix(name, l.snaps()) || strings.HasPrefix(name, l.marks()) {
				rt.Fatalf("%s is deleted: named %v, marked %v", name, named[name], marked)
			}
		}
		for _, name := range p.unmark {
			object := l.marked(name)
			if _, there := all[object]; there && !named[object] {
				rt.Fatalf("the mark of %s is taken back, which nothing names", object)
			}
		}
	})
}

// Cut off at every operation, by turns with captures that match against the last
// image: what was committed stays whole, and nothing piles up.
func TestCollectCutOff(t *testing.T) {
	for n := 1; ; n++ {
		f := newFixture(t)
		items := []item{fileItem("criu/a", text(300_000))}
		w, head, _ := f.write(f.options(), items)
		_, lost, _ := f.write(f.options(), []item{fileItem("criu/b", text(200_000))})
		if err := os.Remove(f.path(lost.Name)); err != nil {
			t.Fatal(err)
		}
		more := append(slices.Clone(items), fileItem("criu/c", text(50_000)))
		whole := f.store
		cut := &failing{Store: whole, after: n}
		f.store = cut
		for range 2 {
			if _, err := Collect(t.Context(), cut, "acme", "lin1", CollectOptions{Trusted: f.trusted}); err != nil && !errors.Is(err, errCut) {
				t.Fatal(err)
			}
		}
		done := !cut.failed
		f.store = whole
		f.check(head, items)
		_, head2, _ := f.write(f.next(head, w.Base()), more)
		for range 3 {
			f.collect(CollectOptions{})
		}
		f.check(head, items)
		f.check(head2, more)
		if s := f.survey(); len(s.Problems)+len(s.Unnamed)+s.Marked != 0 {
			t.Fatalf("cut off at operation %d: %+v", n, s)
		}
		if done {
			return
		}
	}
}

// Cut off at every operation, a deletion leaves the other snapshots whole, and can
// be repeated until nothing of it is left.
func TestDeleteSnapshotCutOff(t *testing.T) {
	for n := 0; ; n++ {
		f := newFixture(t)
		items := []item{fileItem("criu/a", text(300_000))}
		w, head, _ := f.write(f.options(), items)
		more := append(slices.Clone(items), fileItem("criu/c", text(50_000)))
		w2, head2, _ := f.write(f.next(head, w.Base()), more)
		_, head3, _ := f.write(f.next(head2, w2.Base()), items)
		cut := &failing{Store: f.store, after: n}
		err := DeleteSnapshot(t.Context(), cut, "acme", "lin1", head2.Name, f.trusted, always)
		if cut.failed != errors.Is(err, errCut) {
			t.Fatalf("cut off at operation %d: error %v", n, err)
		}
		f.check(head, items)
		f.check(head3, items)
		if s := f.survey(); len(s.Problems) != 0 {
			t.Fatalf("cut off at operation %d: %v", n, s.Problems)
		}
		if err := DeleteSnapshot(t.Context(), f.store, "acme", "lin1", head2.Name, f.trusted, always); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			f.collect(CollectOptions{})
		}
		if s := f.survey(); len(s.Snapshots) != 2 || len(s.Unnamed)+s.Marked+len(s.Problems) != 0 {
			t.Fatalf("cut off at operation %d, and repeated: %+v", n, s)
		}
		if !cut.failed {
			return
		}
	}
}
