package image

import (
	"crypto/ed25519"
	"errors"
	"os"
	"slices"
	"testing"
	"time"
)

// A writer that is revoked: what had been recorded before is as good as ever, and
// nothing else is, even if it claims an earlier time.
func TestRevokedWriter(t *testing.T) {
	f := newFixture(t)
	items := []item{fileItem("criu/a", text(1000))}
	_, before, _ := f.write(f.options(), items)
	o := f.options()
	revoked := time.Now()
	o.Time = revoked.Add(-time.Hour) // written later with the stolen key
	_, after, _ := f.write(o, items)
	recorded := map[Head]time.Time{before: revoked.Add(-time.Minute)}
	open := func(head Head, at func() time.Time) error {
		ro := f.readOptions()
		ro.Trusted = TrustedWhen(func(tenant, signer string) []WriterKey {
			if tenant != "acme" || signer != "host-a" {
				return nil
			}
			return []WriterKey{{Key: f.signer.Public().(ed25519.PublicKey), Revoked: revoked}}
		}, at)
		if _, err := Inspect(t.Context(), f.store, head, ro); err != nil {
			return err
		}
		r, err := Open(t.Context(), f.store, head, ro)
		if err == nil {
			r.Close()
		}
		return err
	}
	if err := open(before, func() time.Time { return recorded[before] }); err != nil {
		t.Errorf("recorded before: %v", err)
	}
	for what, at := range map[string]func() time.Time{
		"never recorded":          func() time.Time { return recorded[after] },
		"recorded after":          func() time.Time { return revoked.Add(time.Second) },
		"recorded in that moment": func() time.Time { return revoked },
		"unknown":                 nil,
	} {
		if err := open(after, at); !errors.Is(err, ErrForged) {
			t.Errorf("%s: error %v, want ErrForged", what, err)
		}
	}
}

// The moment is asked for only where it matters.
func TestTrustedWhenAsksOnlyIfRevoked(t *testing.T) {
	key := ed25519.PublicKey("k")
	trusted := TrustedWhen(func(string, string) []WriterKey { return []WriterKey{{Key: key}} }, func() time.Time {
		t.Error("asked")
		return time.Time{}
	})
	if got := trusted("acme", "host-a"); len(got) != 1 || !got[0].Equal(key) {
		t.Errorf("keys %v", got)
	}
}

// Key objects exchanged: of another key of the lineage, of another lineage, of the
// other snapshot. Each is refused or unwraps nothing, and nothing is handed out.
func TestExchangedKeys(t *testing.T) {
	f := newFixture(t)
	first, second := f.rotated()
	o := f.options()
	o.Session, o.Lineage = "other", "lin2"
	f.write(o, nil)
	keys := f.under("keys/")
	if len(keys) != 3 {
		t.Fatalf("keys %v, want three", keys)
	}
	for _, name := range keys {
		good, err := os.ReadFile(f.path(name))
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range slices.DeleteFunc(slices.Clone(keys), func(n string) bool { return n == name }) {
			bad, err := os.ReadFile(f.path(other))
			if err != nil {
				t.Fatal(err)
			}
			replace(t, f.path(name), bad)
			if err := f.opens(second, f.identity); name[:9] == "acme/lin1" && !errors.Is(err, ErrForged) {
				t.Errorf("%s in the place of %s: error %v, want ErrForged", other, name, err)
			}
		}
		replace(t, f.path(name), good)
	}
	if err := errors.Join(f.opens(first, f.identity), f.opens(second, f.identity)); err != nil {
		t.Error(err)
	}
}

// Every line of the clear header, and what follows it: a bit flipped in each byte
// of it is refused.
func TestEveryByteOfTheHeader(t *testing.T) {
	f := newFixtureAt(t, shmDir(t, "header"))
	_, head, _ := f.write(f.options(), []item{fileItem("criu/a", text(1000))})
	good, err := os.ReadFile(f.path(head.Name))
	if err != nil {
		t.Fatal(err)
	}
	for at := range good {
		bad := slices.Clone(good)
		bad[at] ^= 1 << (at % 8)
		replace(t, f.path(head.Name), bad)
		r, err := Open(t.Context(), f.store, head, f.readOptions())
		if err == nil {
			r.Close()
		}
		if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrForged) {
			t.Fatalf("byte %d of %d flipped: error %v", at, len(good), err)
		}
	}
}
