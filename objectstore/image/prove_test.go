package image

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/dir"
)

// leaving is a store that goes away, or loses the keys, when its first pack is read.
type leaving struct {
	objectstore.Store
	gone bool
}

func (l *leaving) List(ctx context.Context, prefix string, fn func(objectstore.Info) error) error {
	if l.gone {
		return errors.New("connection refused")
	}
	l.gone = true
	return l.Store.List(ctx, prefix, fn)
}

// An image is proven to be of no use by what the store says that it was written to, and by nothing else.
func TestProve(t *testing.T) {
	for what, c := range map[string]struct {
		spoil func(f *fixture, head Head)
		want  error // of which the error is, nil if the image is well
	}{
		"well":              {func(*fixture, Head) {}, nil},
		"header gone":       {func(f *fixture, h Head) { f.removeAll(h.Name) }, ErrNotFound},
		"header damaged":    {func(f *fixture, h Head) { flip(f.T, f.path(h.Name), 10) }, ErrCorrupt},
		"index damaged":     {func(f *fixture, h Head) { flip(f.T, f.path(h.Name), -10) }, ErrCorrupt},
		"packs gone":        {func(f *fixture, h Head) { f.removeAll("*/*/packs/*") }, ErrCorrupt},
		"a pack damaged":    {func(f *fixture, h Head) { flip(f.T, f.first("*/*/packs/*"), -10) }, ErrCorrupt},
		"keys gone":         {func(f *fixture, h Head) { f.removeAll("*/*/keys/*") }, ErrUnproven},
		"keys and all gone": {func(f *fixture, h Head) { f.removeAll("*/*/*/*") }, ErrUnproven},
		"another store":     {func(f *fixture, h Head) { f.store = mustDir(f.T) }, ErrUnproven},
		"a store that goes": {func(f *fixture, h Head) { f.removeAll(h.Name); f.store = &leaving{Store: f.store} }, ErrUnproven},
	} {
		t.Run(what, func(t *testing.T) {
			f := newFixture(t)
			_, head, _ := f.write(f.options(), []item{fileItem("a", random(100_000))})
			c.spoil(f, head)
			err := Prove(t.Context(), f.store, head, f.readOptions())
			if c.want == nil && err != nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if errors.Is(err, ErrUnproven) && (errors.Is(err, ErrCorrupt) || errors.Is(err, ErrNotFound)) {
				t.Errorf("%v is taken for a proof", err)
			}
		})
	}
}

// What isn't signed by a writer who is trusted now says nothing: the keys may be those of another time.
func TestProveUntrusted(t *testing.T) {
	f := newFixture(t)
	_, head, _ := f.write(f.options(), []item{fileItem("a", random(100))})
	f.removeAll("*/*/packs/*")
	if err := Prove(t.Context(), f.store, head, ReadOptions{}); !errors.Is(err, ErrUnproven) || errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
}

func (f *fixture) first(pattern string) string {
	f.Helper()
	all, err := filepath.Glob(f.path(pattern))
	if err != nil || len(all) == 0 {
		f.Fatalf("%s: %v, %v", pattern, all, err)
	}
	for _, name := range all {
		if filepath.Ext(filepath.Base(name[:len(name)-len(filepath.Ext(name))])) != ".ids" {
			return name
		}
	}
	f.Fatalf("of %s there are none", pattern)
	return ""
}

func (f *fixture) removeAll(pattern string) {
	f.Helper()
	all, err := filepath.Glob(f.path(pattern))
	if err != nil || len(all) == 0 {
		f.Fatalf("%s: %v, %v", pattern, all, err)
	}
	for _, name := range all {
		if err := os.Remove(name); err != nil {
			f.Fatal(err)
		}
	}
}

func mustDir(t *testing.T) objectstore.Store {
	t.Helper()
	s, err := dir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}
