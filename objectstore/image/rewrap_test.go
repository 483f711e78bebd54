package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"
	"pgregory.net/rapid"

	"github.com/diapause/diapause/objectstore"
)

func to(version uint64, list ...age.Recipient) Readers {
	return Readers{Recipients: list, Version: version}
}

// rewrap wraps the keys of the fixture's lineage to readers.
func (f *fixture) rewrap(store objectstore.Store, id age.Identity, r Readers) (Rewrapped, error) {
	f.Helper()
	return Rewrap(f.Context(), store, "acme", "lin1", []age.Identity{id}, r)
}

// opens reports whether an identity alone reads a snapshot.
func (f *fixture) opens(head Head, id age.Identity) error {
	f.Helper()
	o := f.readOptions()
	o.Identities = []age.Identity{id}
	r, err := Open(f.Context(), f.store, head, o)
	if err != nil {
		return err
	}
	defer r.Close()
	return r.Verify(f.Context())
}

// rotated writes two snapshots with a lineage key each.
func (f *fixture) rotated() (first, second Head) {
	f.Helper()
	items := []item{fileItem("criu/a", text(100_000))}
	w, first, _ := f.write(f.options(), items)
	o := f.next(first, w.Base())
	o.KeyGeneration = 1
	_, second, _ = f.write(o, append(items, fileItem("criu/b", text(50_000))))
	return first, second
}

func TestAddReader(t *testing.T) {
	f := newFixture(t)
	first, second := f.rotated()
	before := slices.DeleteFunc(f.objects(), func(n string) bool { return strings.Contains(n, "/keys/") })
	later := newIdentity(t)
	got, err := f.rewrap(f.store, f.identity, to(1, f.identity.Recipient(), later.Recipient()))
	if err != nil || got.Keys != 2 || got.Behind != 2 || got.Stored != 2 || got.Deleted != 2 || got.Locked != nil {
		t.Fatalf("%+v, error %v", got, err)
	}
	for _, head := range []Head{first, second} {
		for _, id := range []age.Identity{f.identity, later} {
			if err := f.opens(head, id); err != nil {
				t.Errorf("%s: %v", head.Name, err)
			}
		}
	}
	if after := slices.DeleteFunc(f.objects(), func(n string) bool { return strings.Contains(n, "/keys/") }); !slices.Equal(before, after) {
		t.Error("something outside keys/ was changed")
	}
	// Again, and with a version that grew for other reasons: nothing to do.
	for _, version := range []uint64{1, 9} {
		got, err = f.rewrap(f.store, f.identity, to(version, later.Recipient(), f.identity.Recipient()))
		if err != nil || got.Behind != 0 || got.Stored != 0 || got.Deleted != 0 {
			t.Errorf("again: %+v, error %v", got, err)
		}
	}
	// A host with an older view changes nothing.
	if got, err = f.rewrap(f.store, f.identity, to(0, f.identity.Recipient())); err != nil || got.Stored+got.Deleted != 0 {
		t.Errorf("a stale view: %+v, error %v", got, err)
	}
}

func TestRemoveReader(t *testing.T) {
	f := newFixture(t)
	other := newIdentity(t)
	o := f.options()
	o.Recipients = append(o.Recipients, other.Recipient())
	w, first, _ := f.write(o, []item{fileItem("criu/a", text(100_000))})
	if err := f.opens(first, other); err != nil {
		t.Fatal(err)
	}
	only := to(1, f.identity.Recipient())
	if got, err := Wraps(t.Context(), f.store, "acme", "lin1", only); err != nil || got.Behind != 1 || got.Keys != 1 {
		t.Errorf("before: %+v, error %v", got, err)
	}
	if got, err := f.rewrap(f.store, f.identity, only); err != nil || got.Deleted != 1 {
		t.Fatalf("%+v, error %v", got, err)
	}
	if err := f.opens(first, other); !errors.Is(err, ErrNoKey) {
		t.Errorf("the removed reader: %v, want ErrNoKey", err)
	}
	// The next image has a key of its own, and may refer to older packs.
	o = f.next(first, w.Base())
	o.KeyVersion, o.KeyGeneration = 1, 1
	items := []item{fileItem("criu/a", text(50_000))}
	w2, second, stats := f.write(o, items)
	f.check(second, items)
	if w2.key == w.key || stats.Full {
		t.Errorf("key %s after %s, stats %+v", w2.key.KID, w.key.KID, stats)
	}
	if w2.header.KeyGeneration != 1 {
		t.Errorf("the header says generation %d", w2.header.KeyGeneration)
	}
	// The one after it keeps that key, also without a base.
	for _, base := range []*Base{w2.Base(), nil} {
		o = f.next(second, base)
		o.KeyVersion, o.KeyGeneration = 1, 1
		if w3, _, _ := f.write(o, items); w3.key != w2.key {
			t.Errorf("key %s after %s", w3.key.KID, w2.key.KID)
		}
	}
	// In full, if nothing older is to stay.
	o = f.next(second, w2.Base())
	o.KeyGeneration, o.FullSince = 2, 2
	w4, head, stats := f.write(o, items)
	f.check(head, items)
	if !stats.Full || w4.key == w2.key || len(w4.header.Packs) != 1 {
		t.Errorf("in full: key %s, stats %+v, packs %v", w4.key.KID, stats, w4.header.Packs)
	}
}

// Classic and post-quantum readers have wraps of their own; the key is
// post-quantum only if no classic reader can read it.
func TestBothKinds(t *testing.T) {
	f := newFixture(t)
	_, head, _ := f.write(f.options(), []item{fileItem("criu/a", text(1000))})
	quantum := newHybrid(t)
	both := to(1, f.identity.Recipient(), quantum.Recipient())
	if got, err := f.rewrap(f.store, f.identity, both); err != nil || got.Stored != 2 || got.Deleted != 1 {
		t.Fatalf("%+v, error %v", got, err)
	}
	for _, id := range []age.Identity{f.identity, quantum} {
		if err := f.opens(head, id); err != nil {
			t.Error(err)
		}
	}
	if got, err := f.rewrap(f.store, quantum, both); err != nil || got.Stored+got.Deleted != 0 {
		t.Errorf("again: %+v, error %v", got, err)
	}
	for what, list := range map[string][]age.Recipient{
		"age1pq": {quantum.Recipient(), newHybrid(t).Recipient()}, "age1": both.Recipients,
	} {
		o := f.options()
		o.Recipients = list
		w, head, _ := f.write(o, []item{fileItem("criu/a", text(1000))})
		if got := strings.HasPrefix(w.header.Recipient, "age1pq"); got != (what == "age1pq") {
			t.Errorf("lineage key %.12s…, want %s…", w.header.Recipient, what)
		}
		if err := f.opens(head, quantum); err != nil {
			t.Error(err)
		}
	}
}

func TestRewrapWithoutIdentity(t *testing.T) {
	f := newFixture(t)
	_, head, _ := f.write(f.options(), []item{fileItem("criu/a", text(1000))})
	want := f.objects()
	stranger := newIdentity(t)
	got, err := f.rewrap(f.store, stranger, to(1, stranger.Recipient()))
	if err != nil || len(got.Locked) != 1 || got.Stored+got.Deleted != 0 || !slices.Equal(f.objects(), want) {
		t.Errorf("%+v, error %v", got, err)
	}
	if _, err := f.rewrap(f.store, f.identity, to(1)); err == nil || !strings.Contains(err.Error(), "no recipients") {
		t.Errorf("no recipients: error %v", err)
	}
	if err := f.opens(head, f.identity); err != nil {
		t.Error(err)
	}
}

// What lies under the name of a wrap that was to be made, and isn't one: the
// older wraps stay.
func TestRewrapFindsGarbage(t *testing.T) {
	f := newFixture(t)
	w, head, _ := f.write(f.options(), []item{fileItem("criu/a", text(1000))})
	readers, err := newWrapSet(1, []age.Recipient{newIdentity(t).Recipient(), f.identity.Recipient()})
	if err != nil {
		t.Fatal(err)
	}
	name := w.place.keys() + wrapName{w.key.KID, 1, readers.digest, wrapClassic}.String()
	_, others, err := newKey(readers)
	if err != nil {
		t.Fatal(err)
	}
	for what, data := range map[string][]byte{"garbage": []byte("garbage"), "another key": others[0].data} {
		if err := f.store.Put(t.Context(), name, strings.NewReader(string(data)), int64(len(data))); err != nil {
			t.Fatal(err)
		}
		if got, err := f.rewrap(f.store, f.identity, to(1, readers.groups[0].recipients...)); !refused(err) || got.Deleted != 0 {
			t.Errorf("%s: %+v, error %v", what, got, err)
		}
		if err := f.opens(head, f.identity); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if err := f.store.Delete(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
}

// stopping fails every call of a store from the n-th on that changes it; the n-th
// may have been carried out.
type stopping struct {
	objectstore.Store
	left   int
	happen bool
}

var errStopped = errors.New("stopped here")

func (s *stopping) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	return s.step(func() error { return s.Store.Put(ctx, name, r, size) })
}

func (s *stopping) Delete(ctx context.Context, name string) error {
	return s.step(func() error { return s.Store.Delete(ctx, name) })
}

func (s *stopping) step(do func() error) error {
	if s.left--; s.left > 0 {
		return do()
	}
	if s.left == 0 && s.happen {
		return errors.Join(do(), errStopped)
	}
	return errStopped
}

// Killed before or after each change that it makes, a rewrap leaves the lineage
// readable, and the next one completes it.
func TestRewrapStoppedAnywhere(t *testing.T) {
	for n := 1; ; n++ {
		over := false
		for _, happen := range []bool{false, true} {
			f := newFixtureAt(t, shmDir(t, fmt.Sprintf("rewrap-%d-%v", n, happen)))
			first, second := f.rotated()
			quantum, later := newHybrid(t), newIdentity(t)
			readers := to(1, later.Recipient(), quantum.Recipient())
			_, err := f.rewrap(&stopping{f.store, n, happen}, f.identity, readers)
			if over = err == nil; over {
				break
			}
			if !errors.Is(err, errStopped) {
				t.Fatal(err)
			}
			for _, head := range []Head{first, second} {
				if old, now := f.opens(head, f.identity), f.opens(head, later); old != nil && now != nil {
					t.Fatalf("stopped at change %d: %s opens for no reader: %v, %v", n, head.Name, old, now)
				}
			}
			if _, err := Rewrap(t.Context(), f.store, "acme", "lin1", []age.Identity{f.identity, later}, readers); err != nil {
				t.Fatalf("again after change %d: %v", n, err)
			}
			for _, id := range []age.Identity{later, quantum} {
				if err := errors.Join(f.opens(first, id), f.opens(second, id)); err != nil {
					t.Fatalf("again after change %d: %v", n, err)
				}
			}
			if err := f.opens(second, f.identity); !errors.Is(err, ErrNoKey) {
				t.Fatalf("again after change %d: the old reader: %v", n, err)
			}
		}
		if over {
			if n < 7 { // two keys: two wraps made and one removed of each
				t.Fatalf("only %d changes", n-1)
			}
			return
		}
	}
}

// Any number of hosts, with views of who the readers are that differ in age, in
// any interleaving of their steps: a complete set of wraps is there at each
// moment, and when all know the last word and have come to their end it alone is.
func TestRewrapsBesideEachOther(t *testing.T) {
	groups := []wrapGroup{{kind: wrapClassic}, {kind: wrapPQ}}
	rapid.Check(t, func(rt *rapid.T) {
		sets := []wrapSet{}
		for v := range uint64(4) { // what the readers were, one version after the other; they may come back
			kinds := rapid.IntRange(1, 2).Draw(rt, "kinds")
			sets = append(sets, wrapSet{version: v, digest: fmt.Sprintf("%dx%d", rapid.IntRange(0, 2).Draw(rt, "readers"), kinds), groups: groups[:kinds]})
		}
		store := map[string]bool{}
		for _, g := range sets[0].groups {
			store[wrapName{"k", 0, sets[0].digest, g.kind}.String()] = true
		}
		list := func() (w wrapsOf) {
			for name := range store {
				w = append(w, name)
			}
			return w
		}
		host := func(view int) []func() { return steps(store, list, sets[view]) }
		running := [][]func(){}
		for range rapid.IntRange(1, 5).Draw(rt, "hosts") {
			running = append(running, host(rapid.IntRange(0, 3).Draw(rt, "view")))
		}
		for len(running) > 0 {
			i := rapid.IntRange(0, len(running)-1).Draw(rt, "next")
			if len(running[i]) == 0 || rapid.IntRange(0, 9).Draw(rt, "killed") == 0 {
				running = slices.Delete(running, i, i+1)
				continue
			}
			running[i][0]()
			running[i] = running[i][1:]
			if !anyComplete(list(), sets) {
				rt.Fatalf("no reader opens %v", list())
			}
		}
		for range 2 {
			for _, step := range host(3) {
				step()
			}
		}
		if p := list().plan(sets[3]); !p.done {
			rt.Fatalf("in the end %+v is left to do of %v", p, list())
		}
		for _, name := range list() {
			if n, _ := parseWrapName(name); n.digest != sets[3].digest {
				rt.Fatalf("in the end %v, want the readers %s", list(), sets[3].digest)
			}
		}
	})
}

// steps are those of one rewrap of one key: each call does the next.
func steps(store map[string]bool, list func() wrapsOf, set wrapSet) []func() {
	var plan standing
	out := []func(){func() { plan = list().plan(set) }}
	for _, g := range set.groups {
		out = append(out, func() {
			if plan.put {
				store[wrapName{"k", set.version, set.digest, g.kind}.String()] = true
			}
		})
	}
	for i := range 16 {
		out = append(out, func() {
			if i < len(plan.older) {
				delete(store, plan.older[i])
			}
		})
	}
	return out
}

// anyComplete reports whether all readers of some version can open the key.
func anyComplete(w wrapsOf, sets []wrapSet) bool {
	for _, s := range sets {
		have := map[uint64]int{}
		for _, name := range w {
			if n, ok := parseWrapName(name); ok && n.digest == s.digest {
				if have[n.version]++; have[n.version] == len(s.groups) {
					return true
				}
			}
		}
	}
	return false
}
