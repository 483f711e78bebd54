package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"filippo.io/age"

	"github.com/diapause/diapause/objectstore"
)

// LineageKey is the public half of the key that a lineage is encrypted to. It is
// no secret, but must come from a source that can't be tampered with: a verified header,
// or a Writer.
type LineageKey struct {
	KID       string // names the key: kidOf(Recipient)
	Recipient string // age recipient, "age1…"
}

// kidOf names a key by its public half, so that a name can't be had by another.
func kidOf(recipient string) string { return hexDigest([]byte(recipient))[:16] }

// recipient parses the public half.
func (k LineageKey) recipient() (age.Recipient, error) {
	if k.KID != kidOf(k.Recipient) {
		return nil, fmt.Errorf("lineage key %.20q: the id is not that of its recipient", k.KID)
	}
	list, err := age.ParseRecipients(bytes.NewReader([]byte(k.Recipient)))
	if err != nil || len(list) != 1 {
		return nil, fmt.Errorf("lineage key %s: the recipient is not one of age's", k.KID)
	}
	return list[0], nil
}

// newKey makes a lineage key. It is post-quantum if all its readers are: an
// attacker who breaks one classic wrap has the key.
func newKey(readers wrapSet) (LineageKey, []wrap, error) {
	if len(readers.groups) == 0 {
		return LineageKey{}, nil, errors.New("make lineage key: no recipients to wrap it to")
	}
	secret, public, err := generate(readers.postQuantum())
	if err != nil {
		return LineageKey{}, nil, fmt.Errorf("make lineage key: %w", err)
	}
	key := LineageKey{KID: kidOf(public), Recipient: public}
	wraps, err := readers.wrap(key, secret)
	return key, wraps, err
}

func generate(postQuantum bool) (secret, public string, err error) {
	if postQuantum {
		id, err := age.GenerateHybridIdentity()
		if err != nil {
			return "", "", err
		}
		return id.String(), id.Recipient().String(), nil
	}
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return "", "", err
	}
	return id.String(), id.Recipient().String(), nil
}

// maxKey bounds a wrapped key: about a thousand recipients.
const maxKey = 4 << 20

// unwrapKey fetches a lineage key and unwraps it. It may be wrapped more than
// once, to objects whose names begin alike; the first that one of the identities
// opens will do.
func unwrapKey(ctx context.Context, store objectstore.Store, l lineage, kid string, identities []age.Identity) (age.Identity, error) {
	if len(identities) == 0 {
		return nil, fmt.Errorf("%w: no identity given to unwrap key %s of %s with", ErrNoKey, kid, l.keys())
	}
	for range unwrapLooks - 1 {
		id, err := unwrapAny(ctx, store, l, kid, identities)
		if !errors.Is(err, errGone) {
			return id, err
		}
	}
	return unwrapAny(ctx, store, l, kid, identities)
}

// unwrapLooks is how often a key is looked for when wraps vanish between their
// listing and their reading, as they do while others replace them.
const unwrapLooks = 3

// errGone marks a wrap that was listed and is gone.
var errGone = errors.New("the wrap is gone")

func unwrapAny(ctx context.Context, store objectstore.Store, l lineage, kid string, identities []age.Identity) (age.Identity, error) {
	names, err := listNames(ctx, store, l.keys()+kid)
	if err != nil {
		return nil, fmt.Errorf("look for the lineage key: %w", err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return l.kidOf(name) != kid })
	if len(names) == 0 {
		return nil, fmt.Errorf("%w: %s is gone (lineage shredded, or keys/ lost)", ErrNoKey, l.key(kid))
	}
	var why error
	for _, name := range names {
		id, err := unwrapOne(ctx, store, name, kid, identities)
		if err == nil {
			return id, nil
		}
		// Damage says more than a wrap for others does.
		if why == nil || errors.Is(why, ErrNoKey) {
			why = err
		}
	}
	return nil, why
}

// unwrapOne unwraps one key object. What it holds must be the key that kid names:
// the object itself is not signed.
func unwrapOne(ctx context.Context, store objectstore.Store, name, kid string, identities []age.Identity) (age.Identity, error) {
	wrapped, err := getAll(ctx, store, name, maxKey)
	if errors.Is(err, objectstore.ErrNotFound) {
		return nil, fmt.Errorf("%w: %w: %s", ErrNoKey, errGone, name)
	}
	if err != nil {
		return nil, err
	}
	text, err := decrypt(wrapped, identities...)
	if err != nil {
		return nil, fmt.Errorf("unwrap %s: %w", name, err)
	}
	id, public, err := parseIdentity(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, name, err)
	}
	if kidOf(public) != kid {
		return nil, fmt.Errorf("%w: %s holds another key", ErrForged, name)
	}
	return id, nil
}

func parseIdentity(text []byte) (id age.Identity, public string, err error) {
	list, err := age.ParseIdentities(bytes.NewReader(text))
	if err != nil || len(list) != 1 {
		return nil, "", errors.New("does not hold one age identity")
	}
	switch id := list[0].(type) {
	case *age.X25519Identity:
		return id, id.Recipient().String(), nil
	case *age.HybridIdentity:
		return id, id.Recipient().String(), nil
	}
	return nil, "", errors.New("holds an identity of an unknown kind")
}

func encrypt(plain []byte, recipients ...age.Recipient) ([]byte, error) {
	var out bytes.Buffer
	out.Grow(len(plain) + len(plain)/1024 + 4096) // for age's header and tags
	w, err := age.Encrypt(&out, recipients...)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// decrypt gives the whole plaintext or none of it.
func decrypt(data []byte, identities ...age.Identity) ([]byte, error) {
	r, err := age.Decrypt(bytes.NewReader(data), identities...)
	if err != nil {
		return nil, ageError(err)
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		return nil, ageError(err)
	}
	return plain, nil
}

// ageError tells a wrong key from damage.
func ageError(err error) error {
	if noMatch := new(age.NoIdentityMatchError); errors.As(err, &noMatch) {
		return fmt.Errorf("%w: %w", ErrNoKey, err)
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}

// getAll reads an object of at most limit bytes.
func getAll(ctx context.Context, store objectstore.Store, name string, limit int64) ([]byte, error) {
	data, err := getRange(ctx, store, name, 0, limit+1)
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%w: %s is larger than %d bytes", ErrCorrupt, name, limit)
	}
	return data, nil
}

func getRange(ctx context.Context, store objectstore.Store, name string, offset, length int64) ([]byte, error) {
	r, err := store.Get(ctx, name, offset, length)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return data, nil
}
