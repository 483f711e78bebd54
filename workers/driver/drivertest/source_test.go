package drivertest

import (
	"bytes"
	"crypto/ed25519"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/objectstore/dir"
	"github.com/diapause/diapause/objectstore/image"
)

// A stored image is the source that its port promises: pages that compress, that don't, and
// holes, over several frames.
func TestStoredImageIsASource(t *testing.T) {
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	store, err := dir.Open(t.TempDir())
	must(err)
	id, err := age.GenerateX25519Identity()
	must(err)
	public, signer, err := ed25519.GenerateKey(nil)
	must(err)
	w, err := image.Create(t.Context(), store, image.WriteOptions{
		Tenant: "t", Session: "s", UID: "u", Lineage: "l", Epoch: 1, Seq: 1, Time: time.Now(),
		Recipients: []age.Recipient{id.Recipient()}, Signer: signer, SignerName: "h",
	})
	must(err)
	random := rand.NewChaCha8([32]byte{1})
	for name, parts := range map[string][]int{"empty": nil, "small": {5}, "large": {3 << 20, -(1 << 20), 100, 1 << 20}} {
		var content []byte
		for _, n := range parts {
			b := make([]byte, max(n, -n))
			if n > 0 {
				_, _ = random.Read(b) // it never fails
			}
			content = append(content, b...)
		}
		must(w.Add(image.Entry{Name: name, Type: image.TypeFile, Mode: 0o600, Size: int64(len(content))}, bytes.NewReader(content)))
	}
	head, _, _, err := w.Commit(t.Context())
	must(err)
	r, err := image.Open(t.Context(), store, head, image.ReadOptions{
		Identities: []age.Identity{id},
		Trusted:    func(string, string) []ed25519.PublicKey { return []ed25519.PublicKey{public} },
		Expect:     image.Expect{Tenant: "t", Session: "s", UID: "u", Lineage: "l"},
	})
	must(err)
	defer r.Close()
	CheckSource(t, r)
	at, _, err := r.ReaderAt("large")
	must(err)
	must(r.Close())
	if _, err := io.ReadFull(io.NewSectionReader(at, 0, 10), make([]byte, 10)); err == nil {
		t.Error("a closed image can be read")
	}
}
