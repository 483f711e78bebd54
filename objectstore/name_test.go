package objectstore_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/diapause/diapause/objectstore"
)

// A name that is taken is a path that leads nowhere but below its root, and the same one
// however it is cleaned.
func FuzzCheckName(f *testing.F) {
	for _, s := range []string{"a", "a/b.age", "../a", "a/../b", ".a", "a//b", "/a", "a/", "", "a\x00b", "ä", strings.Repeat("x", 201), strings.Repeat("x/", 512) + "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		err := objectstore.CheckName(name)
		if err != nil {
			if !errors.Is(err, objectstore.ErrName) || len(err.Error()) > 2*objectstore.MaxName*4 {
				t.Fatalf("%q is refused with %v", name, err)
			}
			return
		}
		if !filepath.IsLocal(name) || filepath.Clean(name) != name || len(name) > objectstore.MaxName || strings.ContainsAny(name, "\\:%?# ") {
			t.Fatalf("%q is taken", name)
		}
		for element := range strings.SplitSeq(name, "/") {
			if len(element) > objectstore.MaxElement || element[0] == '.' {
				t.Fatalf("%q is taken", name)
			}
		}
	})
}
