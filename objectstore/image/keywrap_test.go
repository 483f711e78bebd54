package image

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"filippo.io/age"

	"github.com/diapause/diapause/objectstore"
)

// Names that could be taken for another key's, or for newer wraps than they are.
func TestWrapNames(t *testing.T) {
	good := wrapName{"0123456789abcdef", 12, "fedcba9876543210", wrapClassic}
	if got, ok := parseWrapName(good.String()); !ok || got != good {
		t.Errorf("%s is read as %+v", good, got)
	}
	for _, name := range []string{
		"", "0123456789abcdef.age", "0123456789abcdef-later.age", "0123456789abcdef-012-fedcba9876543210-classic.age",
		"0123456789abcdef--1-fedcba9876543210-classic.age", "0123456789abcdef-12-fedcba9876543210-classic", "a-18446744073709551616-b-c.age",
	} {
		if got, ok := parseWrapName(name); ok {
			t.Errorf("%q is read as %+v", name, got)
		}
	}
}

// Wraps of other names than ours count as older than all, and go once the key is
// wrapped to its readers.
func TestWrapsByHandAreReplaced(t *testing.T) {
	s := wrapSet{version: 0, digest: "d", groups: []wrapGroup{{kind: wrapClassic}}}
	p := wrapsOf{"k.age", "k-by-hand.age"}.plan(s)
	if !p.put || !slices.Equal(p.older, []string{"k-by-hand.age", "k.age"}) {
		t.Errorf("%+v", p)
	}
}

// oneObject is a store that holds one object, for reading.
type oneObject struct {
	objectstore.Store
	name string
	data []byte
}

func (o oneObject) Get(_ context.Context, name string, _, _ int64) (io.ReadCloser, error) {
	if name != o.name {
		return nil, objectstore.ErrNotFound
	}
	return io.NopCloser(bytes.NewReader(o.data)), nil
}

func (o oneObject) List(_ context.Context, _ string, fn func(objectstore.Info) error) error {
	return fn(objectstore.Info{Name: o.name})
}

func FuzzWrapName(f *testing.F) {
	f.Add("0123456789abcdef-12-fedcba9876543210-pq.age")
	f.Fuzz(func(t *testing.T, name string) {
		if n, ok := parseWrapName(name); ok && n.String() != name {
			t.Errorf("%q is read as %+v", name, n)
		}
	})
}

// A key object with any content yields the key that its name says, or an error.
func FuzzKeyObject(f *testing.F) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		f.Fatal(err)
	}
	readers, err := newWrapSet(0, []age.Recipient{id.Recipient()})
	if err != nil {
		f.Fatal(err)
	}
	key, wraps, err := newKey(readers)
	if err != nil {
		f.Fatal(err)
	}
	text, err := decrypt(wraps[0].data, id)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("AGE-SECRET-KEY-1"))
	f.Add(bytes.Repeat(text, 2))
	f.Fuzz(func(t *testing.T, text []byte) {
		wrapped, err := encrypt(text, id.Recipient())
		if err != nil {
			t.Fatal(err)
		}
		store := oneObject{name: "acme/lin1/keys/" + wraps[0].name, data: wrapped}
		got, err := unwrapKey(t.Context(), store, lineage{"acme", "lin1"}, key.KID, []age.Identity{id})
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrForged) {
				t.Errorf("error %v, want ErrCorrupt or ErrForged", err)
			}
			return
		}
		if half, _, err := halves(got); err != nil || half != key {
			t.Errorf("key %+v, error %v, want %+v", half, err, key)
		}
	})
}
