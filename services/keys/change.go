package keys

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/diapause/diapause/objectstore/seal"
	"github.com/diapause/diapause/schemas"
)

// edit changes a record in place. It returns false if there is nothing to change.
type edit func(k *schemas.TenantKeys, now time.Time) (bool, error)

// change says what made the revision.
func change(k *schemas.TenantKeys, kind, actor, format string, args ...any) {
	k.Change = schemas.KeyChange{Type: kind, Text: fmt.Sprintf(format, args...), Actor: actor}
}

// begin has new images get new lineage keys. floor is the highest generation that
// counts elsewhere.
func begin(k *schemas.TenantKeys, floor uint64, rewrite bool) {
	k.Generation = max(k.Generation, floor) + 1
	if rewrite {
		k.FullSince = k.Generation
	}
}

// add makes a recipient a reader.
func add(req schemas.KeyRequest, actor string) edit {
	return func(k *schemas.TenantKeys, now time.Time) (bool, error) {
		if _, err := seal.ParseRecipient(req.Recipient); err != nil {
			return false, schemas.UsageError("%v", err)
		}
		r := schemas.KeyReader{Recipient: req.Recipient, Name: req.Name, Use: schemas.UseRead, Added: now, By: actor}
		if req.Escrow {
			r.Use = schemas.UseEscrow
		}
		old := find(*k, req.Recipient)
		if r.Name == "" {
			r.Name = short(req.Recipient)
			if old != nil {
				r.Name = old.Name
			}
		}
		if err := nameIsFree(*k, r); err != nil {
			return false, err
		}
		switch {
		case old == nil:
			k.Readers = append(k.Readers, r)
		case old.Removed.IsZero() && old.Use == r.Use && old.Name == r.Name:
			return false, nil
		default:
			r.Host = old.Host
			*old = r
		}
		change(k, "added", actor, "%s reads what there is, and what is written from now on", r.Name)
		return true, nil
	}
}

// short names a recipient that has no name.
func short(recipient string) string { return recipient[:min(len(recipient), 16)] }

// maxName bounds the name of a reader, in bytes.
const maxName = 64

func nameIsFree(k schemas.TenantKeys, r schemas.KeyReader) error {
	if len(r.Name) > maxName || strings.ContainsFunc(r.Name, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return schemas.UsageError("name %.80q: want at most %d bytes, without control characters", r.Name, maxName)
	}
	for _, o := range k.Readers {
		if o.Removed.IsZero() && o.Name == r.Name && o.Recipient != r.Recipient {
			return schemas.UsageError("the name %q is that of another reader, %s", r.Name, o.Recipient)
		}
	}
	return nil
}

// find gives the entry of a recipient, removed or not.
func find(k schemas.TenantKeys, recipient string) *schemas.KeyReader {
	for i := range k.Readers {
		if k.Readers[i].Recipient == recipient {
			return &k.Readers[i]
		}
	}
	return nil
}

// elsewhere is what a change of one record has to know of others.
type elsewhere struct {
	every schemas.TenantKeys // every tenant's record, if the change is one of a tenant's own
	floor uint64             // the highest generation that counts there
	ours  []string           // recipients whose identities this host has
}

// remove takes a reader away.
func remove(req schemas.KeyRequest, actor string, e elsewhere) edit {
	return func(k *schemas.TenantKeys, now time.Time) (bool, error) {
		var found []*schemas.KeyReader
		for i, r := range k.Readers {
			if r.Removed.IsZero() && (r.Name == req.Recipient || r.Recipient == req.Recipient) {
				found = append(found, &k.Readers[i])
			}
		}
		if len(found) == 0 {
			return false, schemas.UsageError("no reader is called %q here", req.Recipient).WithHint("`diapause key ls` lists them, --tenant says whose to change")
		}
		if len(found) > 1 {
			return false, schemas.UsageError("%d readers are called %q", len(found), req.Recipient).WithHint("give the recipient (age1…) of one")
		}
		found[0].Removed = now
		if err := e.mayBeGone(*k, req.Force); err != nil {
			return false, err
		}
		begin(k, e.floor, req.Rewrite)
		change(k, "removed", actor, "%s reads nothing that is written from now on", found[0].Name)
		return true, nil
	}
}

// mayBeGone refuses a record that leaves images unreadable to everybody, or, unless
// that is wanted, to this host.
func (e elsewhere) mayBeGone(k schemas.TenantKeys, force bool) error {
	left, ours := 0, 0
	for _, r := range SetOf(e.every, k).Readers {
		if readsImages(r) {
			left++
			if slices.Contains(e.ours, r.Recipient) {
				ours++
			}
		}
	}
	if left == 0 {
		return schemas.StateError(schemas.ReasonKey, "that is the last reader: no image could be read any more").WithHint("add another one first")
	}
	if ours == 0 && len(e.ours) > 0 && !force {
		return schemas.StateError(schemas.ReasonKey, "no identity of this host would open images any more").
			WithHint("nothing could be resumed here: start `diapause up` with an --identity-file of a reader that stays, or give --force")
	}
	return nil
}

// rotate has new images get new lineage keys, of the same readers.
func rotate(req schemas.KeyRequest, actor string, floor uint64) edit {
	return func(k *schemas.TenantKeys, _ time.Time) (bool, error) {
		begin(k, floor, req.Rewrite)
		change(k, "rotated", actor, "images get new keys from now on")
		return true, nil
	}
}

// trust makes a key one that a host may sign with.
func trust(req schemas.KeyRequest, actor string) edit {
	return func(k *schemas.TenantKeys, now time.Time) (bool, error) {
		if !schemas.ValidToken(string(req.Host)) {
			return false, schemas.UsageError("host %q: want 1 to 64 of A-Z a-z 0-9 _ -", req.Host)
		}
		if key, err := base64.StdEncoding.DecodeString(req.Key); err != nil || len(key) != ed25519.PublicKeySize {
			return false, schemas.UsageError("key %.60q: want an Ed25519 public key, 32 bytes in base64", req.Key)
		}
		change(k, "trusted", actor, "host %s may sign images with %s", req.Host, req.Key)
		for i, w := range k.Writers {
			if w.Host == req.Host && w.Key == req.Key {
				k.Writers[i].Revoked = time.Time{}
				return !w.Revoked.IsZero(), nil
			}
		}
		k.Writers = append(k.Writers, schemas.KeyWriter{Host: req.Host, Key: req.Key, Added: now, By: actor})
		return true, nil
	}
}

// revoke ends what a host may sign: with one key, or with all that it has. Of a
// tenant's own record it does so for that tenant alone, even if the record of all
// tenants trusts the host.
func revoke(req schemas.KeyRequest, actor string, e elsewhere) edit {
	return func(k *schemas.TenantKeys, now time.Time) (bool, error) {
		known, changed := false, false
		for _, w := range SetOf(e.every, *k).Writers {
			if w.Host != req.Host || req.Key != "" && w.Key != req.Key {
				continue
			}
			known = true
			if w.Revoked.IsZero() {
				w.Revoked, w.By = now, actor
				k.Writers = slices.DeleteFunc(k.Writers, func(o schemas.KeyWriter) bool { return o.Host == w.Host && o.Key == w.Key })
				k.Writers = append(k.Writers, w)
				changed = true
			}
		}
		if !known {
			return false, schemas.UsageError("host %q has no such key", req.Host).WithHint("`diapause key ls` lists them")
		}
		change(k, "revoked", actor, "what host %s signs and is recorded from now on is refused", req.Host)
		return changed, nil
	}
}
