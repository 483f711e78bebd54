package keys

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/schemas"
)

var now = time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC)

func newRecipient(t *testing.T) string {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id.Recipient().String()
}

func newHybrid(t *testing.T) string {
	t.Helper()
	id, err := age.GenerateHybridIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return id.Recipient().String()
}

// apply makes a change that has to be made.
func apply(t *testing.T, k *schemas.TenantKeys, e edit) {
	t.Helper()
	if ok, err := e(k, now); err != nil || !ok {
		t.Fatalf("changed %v, error %v", ok, err)
	}
}

// denied makes a change that has to be refused, with a code and a word.
func denied(t *testing.T, k schemas.TenantKeys, e edit, code, says string) {
	t.Helper()
	k = clone(k)
	_, err := e(&k, now)
	var api *schemas.APIError
	if !errors.As(err, &api) || api.Code != code || !strings.Contains(api.Text+"; "+api.Hint, says) {
		t.Errorf("error %v, want %s with %q", err, code, says)
	}
}

func reader(recipient, name string) schemas.KeyRequest {
	return schemas.KeyRequest{Recipient: recipient, Name: name}
}

func TestReaders(t *testing.T) {
	var k schemas.TenantKeys
	a, b, q := newRecipient(t), newRecipient(t), newHybrid(t)
	apply(t, &k, add(reader(a, "host"), "me"))
	denied(t, k, remove(reader("host", ""), "me", elsewhere{}), schemas.CodeState, "last reader")
	apply(t, &k, add(reader(b, ""), "me"))
	if k.Readers[1].Name != b[:16] || k.Change.Type != "added" || k.Change.Actor != "me" {
		t.Errorf("%+v", k)
	}
	if ok, err := add(reader(b, ""), "me")(&k, now); ok || err != nil {
		t.Errorf("again: %v, %v", ok, err)
	}
	denied(t, k, add(reader(q, "host"), "me"), schemas.CodeUsage, "another reader")
	denied(t, k, add(reader(q, "two\nlines"), "me"), schemas.CodeUsage, "control")
	denied(t, k, add(reader("age1pq1nonsense", ""), "me"), schemas.CodeUsage, "not a public key")
	denied(t, k, remove(reader("unknown", ""), "me", elsewhere{}), schemas.CodeUsage, "no reader")

	ours := elsewhere{ours: []string{a}, floor: 7}
	denied(t, k, remove(reader("host", ""), "me", ours), schemas.CodeState, "--identity-file")
	forced := reader("host", "")
	forced.Force, forced.Rewrite = true, true
	apply(t, &k, remove(forced, "me", ours))
	if k.Generation != 8 || k.FullSince != 8 {
		t.Errorf("generation %d, full since %d, want 8", k.Generation, k.FullSince)
	}
	if s := SetOf(k, schemas.TenantKeys{}); len(s.Readers) != 1 || s.Readers[0].Recipient != b || s.Kind() != "classic" {
		t.Errorf("%+v", s)
	}
	// Once more, and post-quantum when no classic reader is left.
	apply(t, &k, add(reader(a, "host"), "me"))
	apply(t, &k, add(reader(q, "vault"), "me"))
	for _, r := range []string{a, b} {
		apply(t, &k, remove(reader(r, ""), "me", elsewhere{}))
	}
	if s := SetOf(k, schemas.TenantKeys{}); s.Kind() != "post-quantum" || s.Generation != 10 || len(k.Readers) != 3 {
		t.Errorf("%s, %+v", s.Kind(), s)
	}
}

// A tenant's own record adds to every tenant's, and takes nothing from it but
// writers.
func TestTenant(t *testing.T) {
	var every, own schemas.TenantKeys
	a, b := newRecipient(t), newRecipient(t)
	key := base64.StdEncoding.EncodeToString(make([]byte, ed25519.PublicKeySize))
	apply(t, &every, add(reader(a, "host"), "me"))
	apply(t, &every, trust(schemas.KeyRequest{Host: "h", Key: key}, "me"))
	every.Version = 3
	apply(t, &own, add(schemas.KeyRequest{Recipient: b, Escrow: true}, "me"))
	own.Version = 2
	s := SetOf(every, own)
	if r, err := s.Images(); err != nil || len(r.Recipients) != 2 || r.Version != 5 {
		t.Errorf("%+v, error %v", r, err)
	}
	apply(t, &own, remove(reader(b, ""), "me", elsewhere{every: every, floor: 4}))
	if s := SetOf(every, own); len(s.Readers) != 1 || s.Generation != 5 {
		t.Errorf("%+v", s)
	}
	denied(t, own, revoke(schemas.KeyRequest{Host: "other"}, "me", elsewhere{every: every}), schemas.CodeUsage, "no such key")
	apply(t, &own, revoke(schemas.KeyRequest{Host: "h"}, "me", elsewhere{every: every}))
	if w := SetOf(every, own).WriterKeys("h"); len(w) != 1 || !w[0].Revoked.Equal(now) {
		t.Errorf("for the tenant: %+v", w)
	}
	if w := SetOf(every, schemas.TenantKeys{}).WriterKeys("h"); len(w) != 1 || !w[0].Revoked.IsZero() {
		t.Errorf("for the others: %+v", w)
	}
	apply(t, &own, trust(schemas.KeyRequest{Host: "h", Key: key}, "me"))
	if w := SetOf(every, own).WriterKeys("h"); !w[0].Revoked.IsZero() {
		t.Errorf("trusted again: %+v", w)
	}
}

func TestRegister(t *testing.T) {
	own, further := newRecipient(t), newRecipient(t)
	signing := ed25519.PublicKey(make([]byte, ed25519.PublicKeySize))
	r := Registration{Host: "h", Signing: signing, Recipient: own, Identities: []string{own}}
	var k schemas.TenantKeys
	apply(t, &k, r.edit)
	if ok, err := r.edit(&k, now); ok || err != nil {
		t.Errorf("the second start: changed %v, error %v", ok, err)
	}
	// To suspend only, there has to be another reader; and back.
	r.SuspendOnly = true
	denied(t, k, r.edit, schemas.CodeState, "no recipient to write images for")
	r.Further = []string{further}
	apply(t, &k, r.edit)
	if s := SetOf(k, schemas.TenantKeys{}); s.Generation != 1 {
		t.Errorf("generation %d, want a new key", s.Generation)
	}
	if images, err := SetOf(k, schemas.TenantKeys{}).Images(); err != nil || len(images.Recipients) != 1 {
		t.Errorf("images are for %d, error %v", len(images.Recipients), err)
	}
	if to, _, err := SetOf(k, schemas.TenantKeys{}).Sealers(); err != nil || len(to) != 2 {
		t.Errorf("sealed for %d, error %v", len(to), err)
	}
	r.SuspendOnly = false
	apply(t, &k, r.edit)

	// What a person decided stays so.
	apply(t, &k, remove(reader(own, ""), "me", elsewhere{}))
	denied(t, k, r.edit, schemas.CodeState, "was removed from the readers")
	r.Identities = append(r.Identities, further)
	if ok, err := r.edit(&k, now); ok || err != nil {
		t.Errorf("with the identity of another reader: changed %v, error %v", ok, err)
	}
	apply(t, &k, add(reader(own, ""), "me"))
	apply(t, &k, remove(reader(further, ""), "me", elsewhere{}))
	denied(t, k, r.edit, schemas.CodeState, "was removed at")
	r.Further = nil
	apply(t, &k, revoke(schemas.KeyRequest{Host: "h"}, "me", elsewhere{}))
	denied(t, k, r.edit, schemas.CodeState, "was revoked at")
}

func clone(k schemas.TenantKeys) schemas.TenantKeys {
	k.Readers = append([]schemas.KeyReader(nil), k.Readers...)
	k.Writers = append([]schemas.KeyWriter(nil), k.Writers...)
	return k
}

// Two hosts that happen to have the same name for their keys.
func TestNamesStayApart(t *testing.T) {
	var k schemas.TenantKeys
	for i := range 2 {
		r := Registration{Host: "h", Signing: ed25519.PublicKey(fmt.Sprintf("%032d", i)), Recipient: newRecipient(t)}
		apply(t, &k, r.edit)
	}
	if k.Readers[0].Name != "h" || k.Readers[1].Name == "h" || len(SetOf(k, schemas.TenantKeys{}).WriterKeys("h")) != 2 {
		t.Errorf("%+v", k)
	}
}
