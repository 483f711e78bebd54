package keys

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/diapause/diapause/events/keykv"
	"github.com/diapause/diapause/schemas"
)

// Registration is what a host says of itself when it starts.
type Registration struct {
	Host        schemas.HostID
	Signing     ed25519.PublicKey // what it signs images with
	Recipient   string            // its own
	SuspendOnly bool              // it writes images and is not to open them
	Further     []string          // recipients that are to read images as well
	Identities  []string          // recipients of all identities that it has
	By          string            // who registers it; the host's `+"`up`"+` if empty
}

// Register puts a host into every tenant's record: its signing key, so that the
// others believe its images; its recipient, so that it can start sessions and open
// their images; and the further recipients that it was told. Any client that may write
// the record is trusted, that is, any with the system's credentials.
//
// What a person has revoked or removed stays so. A host that could do nothing for
// that reason is refused, with a word on what to do.
func Register(ctx context.Context, store *keykv.Store, r Registration) error {
	_, err := store.Update(ctx, "", func(k *schemas.TenantKeys, now time.Time) (bool, error) { return r.edit(k, now) })
	if e := new(schemas.APIError); errors.As(err, &e) {
		return e
	}
	if err != nil {
		return fmt.Errorf("register the keys of host %s: %w", r.Host, err)
	}
	return nil
}

// LogWriter is whose key signs segments of the log that are written by parts which are no host: all APIs of a
// fleet have the same one.
const LogWriter schemas.HostID = "log"

// RegisterLog puts that key into every tenant's record, so that all who read the log believe these segments.
func RegisterLog(ctx context.Context, store *keykv.Store, signing ed25519.PublicKey, actor string) error {
	r := Registration{Host: LogWriter, Signing: signing, By: actor}
	_, err := store.Update(ctx, "", func(k *schemas.TenantKeys, now time.Time) (bool, error) {
		changed, err := r.editSigning(k, now)
		change(k, "registered", actor, "%s signs the log with a key", actor)
		return changed, err
	})
	if e := new(schemas.APIError); errors.As(err, &e) {
		return e
	}
	if err != nil {
		return fmt.Errorf("register the key that signs the log: %w", err)
	}
	return nil
}

func (r Registration) actor() string { return cmp.Or(r.By, "up@"+string(r.Host)) }

func (r Registration) edit(k *schemas.TenantKeys, now time.Time) (bool, error) {
	signing, err := r.editSigning(k, now)
	if err != nil {
		return false, err
	}
	further := false
	for _, recipient := range r.Further {
		changed, err := r.editFurther(k, recipient, now)
		if err != nil {
			return false, err
		}
		further = further || changed
	}
	own, err := r.editOwn(k, now)
	if err != nil {
		return false, err
	}
	change(k, "registered", r.actor(), "host %s started", r.Host)
	return signing || further || own, nil
}

func (r Registration) editSigning(k *schemas.TenantKeys, now time.Time) (bool, error) {
	key := base64.StdEncoding.EncodeToString(r.Signing)
	for _, w := range k.Writers {
		if w.Host != r.Host || w.Key != key {
			continue
		}
		if !w.Revoked.IsZero() {
			return false, schemas.StateError(schemas.ReasonKey, "the signing key of host %s was revoked at %s (by %s)", r.Host, w.Revoked.Format(time.RFC3339), w.By).
				WithHint("no image that it writes would be accepted; `diapause key trust %s %s` on another host takes that back", r.Host, key)
		}
		return false, nil
	}
	k.Writers = append(k.Writers, schemas.KeyWriter{Host: r.Host, Key: key, Added: now, By: r.actor()})
	return true, nil
}

func (r Registration) editFurther(k *schemas.TenantKeys, recipient string, now time.Time) (bool, error) {
	if old := find(*k, recipient); old != nil {
		if !old.Removed.IsZero() {
			return false, schemas.StateError(schemas.ReasonKey, "--recipient %s: it was removed at %s", recipient, old.Removed.Format(time.RFC3339)).WithHint("leave it out, or `diapause key add` it again")
		}
		return false, nil
	}
	return add(schemas.KeyRequest{Recipient: recipient}, r.actor())(k, now)
}

// editOwn enters the host's own recipient, as a reader or for starting sessions
// alone.
func (r Registration) editOwn(k *schemas.TenantKeys, now time.Time) (bool, error) {
	use := schemas.UseRead
	if r.SuspendOnly {
		use = schemas.UseStart
	}
	old := find(*k, r.Recipient)
	switch {
	case old == nil:
		k.Readers = append(k.Readers, schemas.KeyReader{
			Recipient: r.Recipient, Name: r.freeName(*k), Use: use, Host: r.Host, Added: now, By: r.actor(),
		})
	case !old.Removed.IsZero() && !r.SuspendOnly:
		return false, r.hasAnother(*k, *old)
	case old.Removed.IsZero() && old.Use == use, old.Use == schemas.UseEscrow:
		return false, nil
	default:
		if readsImages(*old) {
			begin(k, 0, false)
		}
		old.Use, old.Removed, old.Host = use, time.Time{}, r.Host
	}
	if r.SuspendOnly {
		if err := (elsewhere{}).mayBeGone(*k, true); err != nil {
			return false, schemas.StateError(schemas.ReasonKey, "--suspend-only: no recipient to write images for").WithHint("name one with --recipient age1…")
		}
	}
	return true, nil
}

func (r Registration) freeName(k schemas.TenantKeys) string {
	name := string(r.Host)
	if nameIsFree(k, schemas.KeyReader{Name: name, Recipient: r.Recipient}) != nil {
		name = short(r.Recipient)
	}
	return name
}

// hasAnother accepts a host whose own recipient was removed if it has the
// identity of another reader.
func (r Registration) hasAnother(k schemas.TenantKeys, old schemas.KeyReader) error {
	for _, recipient := range r.Identities {
		if e := find(k, recipient); e != nil && readsImages(*e) {
			return nil
		}
	}
	return schemas.StateError(schemas.ReasonKey, "the key of host %s was removed from the readers at %s", r.Host, old.Removed.Format(time.RFC3339)).
		WithHint("it could open no image: start it with an --identity-file of a reader, with --suspend-only, or `diapause key add %s` again on another host", r.Recipient)
}
