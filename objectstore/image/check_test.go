package image

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/diapause/diapause/objectstore"
)

// errCut is what a store says that was cut off.
var errCut = errors.New("cut off")

// failing is a store that does so many operations and then none any more.
type failing struct {
	objectstore.Store
	after  int
	failed bool
}

func (s *failing) cut() error {
	if s.after--; s.after < 0 {
		s.failed = true
		return errCut
	}
	return nil
}

func (s *failing) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	return errors.Join(s.cut(), orNil(s.failed, func() error { return s.Store.Put(ctx, name, r, size) }))
}

func (s *failing) Delete(ctx context.Context, name string) error {
	return errors.Join(s.cut(), orNil(s.failed, func() error { return s.Store.Delete(ctx, name) }))
}

func orNil(skip bool, fn func() error) error {
	if skip {
		return nil
	}
	return fn()
}

func (f *fixture) survey() Survey {
	f.Helper()
	s, err := Check(f.Context(), f.store, Place{"acme", "lin1"}, CheckOptions{Trusted: f.trusted, Read: func(string) bool { return true }})
	if err != nil {
		f.Fatal(err)
	}
	return s
}

func TestCheck(t *testing.T) {
	f := newFixture(t)
	items := []item{fileItem("criu/a", text(3<<20))}
	w, head, _ := f.write(f.options(), items)
	more := append(slices.Clone(items), fileItem("criu/b", text(100_000)))
	_, head2, _ := f.write(f.next(head, w.Base()), more)
	s := f.survey()
	if len(s.Problems) != 0 || len(s.Snapshots) != 2 || s.Packs < 2 || s.Read == 0 || len(s.Unnamed) != 0 || s.Logical < 6<<20 {
		t.Fatalf("of what is whole: %+v", s)
	}
	var total int64
	for _, name := range f.objects() {
		info, err := os.Stat(f.path(name))
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if s.Stored != total {
		t.Errorf("stored %d, want %d", s.Stored, total)
	}
	for _, name := range f.objects() {
		content, err := os.ReadFile(f.path(name))
		if err != nil {
			t.Fatal(err)
		}
		for what, spoil := range map[string]func() error{
			"removed":   func() error { return os.Remove(f.path(name)) },
			"truncated": func() error { return os.WriteFile(f.path(name), content[:len(content)-1], 0o600) },
			"longer":    func() error { return os.WriteFile(f.path(name), append(slices.Clone(content), 0), 0o600) },
			"flipped": func() error {
				b := slices.Clone(content)
				b[len(b)/2] ^= 1
				return os.WriteFile(f.path(name), b, 0o600)
			},
		} {
			if err := spoil(); err != nil {
				t.Fatal(err)
			}
			found := len(f.survey().Problems) > 0
			// What only its reader can tell: the content of keys, ids and indexes.
			hidden := strings.Contains(name, "/keys/") && what != "removed" || what == "flipped" && strings.HasSuffix(name, ".ids.age") ||
				strings.Contains(name, "/snaps/")
			if !found && !hidden {
				t.Errorf("%s was %s, and nothing was found", name, what)
			}
			if err := os.WriteFile(f.path(name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.check(head, items)
	f.check(head2, more)
}

func TestPlaces(t *testing.T) {
	f := newFixture(t)
	f.write(f.options(), []item{fileItem("criu/a", text(1000))})
	for _, name := range []string{"README", "acme/lin1/other/x", "a/b/c"} {
		if err := f.store.Put(t.Context(), name, strings.NewReader(""), 0); err != nil {
			t.Fatal(err)
		}
	}
	places, foreign, err := Places(t.Context(), f.store)
	slices.Sort(foreign)
	if err != nil || len(places) != 1 || places[0] != (Place{"acme", "lin1"}) || !slices.Equal(foreign, []string{"README", "a/b/c", "acme/lin1/other/x"}) {
		t.Errorf("places %v, foreign %v, error %v", places, foreign, err)
	}
}
