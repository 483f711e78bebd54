package seal

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"filippo.io/age"
)

func identity(t *testing.T) *age.X25519Identity {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestSeal(t *testing.T) {
	a, b, c := identity(t), identity(t), identity(t)
	for _, plain := range [][]byte{nil, []byte("TOKEN=s3cret"), bytes.Repeat([]byte{0xff}, MaxSize)} {
		sealed, err := Seal(plain, a.Recipient(), b.Recipient())
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(sealed, "\n ") || strings.Contains(sealed, "TOKEN") {
			t.Errorf("sealed: %.60q", sealed)
		}
		for _, id := range []age.Identity{a, b} {
			if got, err := Unseal(sealed, c, id); err != nil || !bytes.Equal(got, plain) {
				t.Errorf("unsealed %d bytes of %d, error %v", len(got), len(plain), err)
			}
		}
		for _, ids := range [][]age.Identity{nil, {c}} {
			if _, err := Unseal(sealed, ids...); !errors.Is(err, ErrNoKey) {
				t.Errorf("identities %v: error %v, want ErrNoKey", ids, err)
			}
		}
	}
}

func TestSealRefuses(t *testing.T) {
	if _, err := Seal(make([]byte, MaxSize+1), identity(t).Recipient()); err == nil {
		t.Error("too long: no error")
	}
	if _, err := Seal([]byte("x")); err == nil {
		t.Error("no recipients: no error")
	}
}

func TestUnsealDamaged(t *testing.T) {
	id := identity(t)
	sealed, err := Seal([]byte("TOKEN=s3cret"), id.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	for cut := range sealed {
		if got, err := Unseal(sealed[:cut], id); err == nil {
			t.Fatalf("cut to %d characters: unsealed %q", cut, got)
		}
	}
	for i := range sealed {
		bad := sealed[:i] + "A" + sealed[i+1:]
		if sealed[i] == 'A' {
			bad = sealed[:i] + "B" + sealed[i+1:]
		}
		if got, err := Unseal(bad, id); err == nil {
			t.Fatalf("character %d changed: unsealed %q", i, got)
		}
	}
}

// Classic and post-quantum recipients are sealed to beside each other.
func TestSealForBothKinds(t *testing.T) {
	classic := identity(t)
	hybrid, err := age.GenerateHybridIdentity()
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := Seal([]byte("TOKEN=s3cret"), hybrid.Recipient(), classic.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	if got := LabelOf(sealed); got != "" {
		t.Errorf("label %q", got)
	}
	sealed = Label(sealed, "both")
	if got := LabelOf(sealed); got != "both" {
		t.Errorf("label %q", got)
	}
	for _, id := range []age.Identity{classic, hybrid} {
		if got, err := Unseal(sealed, id); err != nil || string(got) != "TOKEN=s3cret" {
			t.Errorf("%T: %q, error %v", id, got, err)
		}
	}
	if _, err := Unseal(sealed, identity(t)); !errors.Is(err, ErrNoKey) {
		t.Errorf("a stranger: error %v, want ErrNoKey", err)
	}
	if _, err := Unseal(sealed[:len(sealed)-4]+"AAAA", hybrid); !errors.Is(err, ErrCorrupt) {
		t.Errorf("damaged: error %v, want ErrCorrupt", err)
	}
}
