package keys

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"filippo.io/age"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/objectstore/seal"
	"github.com/diapause/diapause/schemas"
)

// Set is what counts for a tenant: every tenant's record and its own together.
type Set struct {
	Readers    []schemas.KeyReader // those that weren't removed
	Writers    []schemas.KeyWriter
	Version    uint64 // grows with every change of one of the records
	Generation uint64
	FullSince  uint64
}

// SetOf adds up every tenant's record and the tenant's own. A key that one of them
// revokes is revoked.
func SetOf(every, own schemas.TenantKeys) Set {
	s := Set{
		Version: every.Version + own.Version, Generation: max(every.Generation, own.Generation),
		FullSince: max(every.FullSince, own.FullSince),
	}
	for _, r := range slices.Concat(every.Readers, own.Readers) {
		if r.Removed.IsZero() {
			s.addReader(r)
		}
	}
	for _, w := range slices.Concat(every.Writers, own.Writers) {
		s.addWriter(w)
	}
	return s
}

func (s *Set) addReader(r schemas.KeyReader) {
	i := slices.IndexFunc(s.Readers, func(o schemas.KeyReader) bool { return o.Recipient == r.Recipient })
	switch {
	case i < 0:
		s.Readers = append(s.Readers, r)
	case s.Readers[i].Use == schemas.UseStart:
		s.Readers[i] = r
	}
}

func (s *Set) addWriter(w schemas.KeyWriter) {
	i := slices.IndexFunc(s.Writers, func(o schemas.KeyWriter) bool { return o.Host == w.Host && o.Key == w.Key })
	if i < 0 {
		s.Writers = append(s.Writers, w)
		return
	}
	old := s.Writers[i].Revoked
	if !w.Revoked.IsZero() && (old.IsZero() || w.Revoked.Before(old)) {
		s.Writers[i].Revoked = w.Revoked
	}
}

// readsImages reports whether images are encrypted to a reader.
func readsImages(r schemas.KeyReader) bool { return r.Removed.IsZero() && r.Use != schemas.UseStart }

// Images gives for whom images are.
func (s Set) Images() (image.Readers, error) {
	list, err := parseAll(s.Readers, readsImages)
	return image.Readers{Recipients: list, Version: s.Version, Generation: s.Generation, FullSince: s.FullSince}, err
}

// Sealers gives whom to seal to how a session is to be started, and a word that
// stands for them.
func (s Set) Sealers() ([]age.Recipient, string, error) {
	list, err := parseAll(s.Readers, func(schemas.KeyReader) bool { return true })
	var texts []string
	for _, r := range s.Readers {
		texts = append(texts, r.Recipient)
	}
	slices.Sort(texts)
	sum := sha256.Sum256([]byte(strings.Join(texts, "\n")))
	return list, hex.EncodeToString(sum[:8]), err
}

func parseAll(readers []schemas.KeyReader, want func(schemas.KeyReader) bool) (list []age.Recipient, err error) {
	for _, r := range readers {
		if !want(r) {
			continue
		}
		parsed, err := seal.ParseRecipient(r.Recipient)
		if err != nil {
			return nil, fmt.Errorf("reader %s: %w", r.Name, err)
		}
		list = append(list, parsed)
	}
	return list, nil
}

// Kind names what new lineage keys are: "post-quantum" only if every reader of
// images is.
func (s Set) Kind() string {
	kind := "post-quantum"
	for _, r := range s.Readers {
		if readsImages(r) && !strings.HasPrefix(r.Recipient, "age1pq1") {
			kind = "classic"
		}
	}
	return kind
}

// WriterKeys gives the keys of a writer, revoked ones included.
func (s Set) WriterKeys(signer string) (keys []image.WriterKey) {
	for _, w := range s.Writers {
		if string(w.Host) != signer {
			continue
		}
		if key, err := base64.StdEncoding.DecodeString(w.Key); err == nil && len(key) == ed25519.PublicKeySize {
			keys = append(keys, image.WriterKey{Key: key, Revoked: w.Revoked})
		}
	}
	return keys
}
