package api

import (
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
)

// Two sessions with one uid would share their images: where one is deleted, the
// other's go.
func TestUIDsAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for range 100_000 {
		uid := newUID()
		if !schemas.ValidToken(string(uid)) || strings.ToLower(string(uid)) != string(uid) {
			t.Fatalf("uid %q", uid)
		}
		if seen[string(uid)] {
			t.Fatalf("uid %s came twice", uid)
		}
		seen[string(uid)] = true
	}
}
