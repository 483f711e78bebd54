package image

import (
	"strings"
	"testing"

	"filippo.io/age"
)

// readers is the first version of a set of readers.
func (f *fixture) readers(list ...age.Recipient) wrapSet {
	f.Helper()
	s, err := newWrapSet(0, list)
	if err != nil {
		f.Fatal(err)
	}
	return s
}

// keyObject names the one object of a writer's lineage key.
func (f *fixture) keyObject(w *Writer) string {
	f.Helper()
	var found []string
	for _, name := range f.under("keys/") {
		if strings.Contains(name, w.key.KID) {
			found = append(found, name)
		}
	}
	if len(found) != 1 {
		f.Fatalf("key %s has the objects %v, want one", w.key.KID, found)
	}
	return found[0]
}

func newIdentity(t *testing.T) *age.X25519Identity {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func newHybrid(t *testing.T) *age.HybridIdentity {
	t.Helper()
	id, err := age.GenerateHybridIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}
