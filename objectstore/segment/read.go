package segment

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"github.com/diapause/diapause/objectstore"
)

// Trusted gives the keys of a host whose signature is accepted.
type Trusted func(host string) []ed25519.PublicKey

// Put stores a sealed segment. Of an error other than objectstore.ErrFull the outcome isn't known.
func (s Sealed) Put(ctx context.Context, store objectstore.Store) error {
	if err := store.Put(ctx, s.Name, bytes.NewReader(s.data), s.Size()); err != nil {
		return fmt.Errorf("store log segment %d: %w", s.Number, err)
	}
	return nil
}

// ReadHeader reads what a segment says of itself, and needs no key. With a digest it has to be
// the segment that a chain names; what trusted says is asked in any case.
// Errors: objectstore.ErrNotFound, ErrCorrupt, ErrForged, or what the store says.
func ReadHeader(ctx context.Context, store objectstore.Store, at Ref, trusted Trusted) (Header, Ref, error) {
	r, err := store.Get(ctx, at.Name, 0, maxHead)
	if err != nil {
		return Header{}, at, fmt.Errorf("read log segment %d: %w", at.Number, err)
	}
	defer r.Close()
	h, ref, err := readHead(bufio.NewReader(r), at, trusted)
	if err != nil {
		return h, at, fmt.Errorf("read log segment %d: %w", at.Number, err)
	}
	return h, ref, nil
}

// readHead reads the lines before what is encrypted, and compares them.
func readHead(r *bufio.Reader, at Ref, trusted Trusted) (h Header, ref Ref, err error) {
	var lines [3]string
	size := 0
	for i := range lines {
		text, err := r.ReadString('\n')
		if size += len(text); errors.Is(err, io.EOF) || size > maxHead {
			return h, ref, fmt.Errorf("%w: its header is cut short", ErrCorrupt)
		}
		if err != nil {
			return h, ref, err
		}
		lines[i] = text
	}
	if lines[0] != magic+"\n" {
		return h, ref, fmt.Errorf("%w: it is of no known format", ErrCorrupt)
	}
	if err := json.Unmarshal([]byte(lines[1]), &h); err != nil {
		return h, ref, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	ref = Ref{Number: h.Number, Name: at.Name, Digest: digest(lines[0] + lines[1] + lines[2])}
	switch number, ok := NumberOf(at.Name); {
	case at.Digest != "" && at.Digest != ref.Digest:
		return h, ref, fmt.Errorf("%w: the chain names another one", ErrForged)
	case !ok || number != h.Number || at.Number != 0 && at.Number != h.Number:
		return h, ref, fmt.Errorf("%w: it is number %d of its chain", ErrForged, h.Number)
	case (h.Number > 1) != (h.Previous != nil) || h.Previous != nil && h.Previous.Number != h.Number-1:
		return h, ref, fmt.Errorf("%w: it doesn't follow on number %d", ErrCorrupt, h.Number-1)
	}
	signature, err := base64.StdEncoding.Strict().DecodeString(lines[2][:len(lines[2])-1])
	if err != nil {
		return h, ref, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if !slices.ContainsFunc(trusted(h.Signer), func(key ed25519.PublicKey) bool {
		return ed25519.Verify(key, []byte(lines[0]+lines[1]), signature)
	}) {
		return h, ref, fmt.Errorf("%w: no trusted key of host %q signed it", ErrForged, h.Signer)
	}
	return h, ref, nil
}

// Read calls fn with the revisions of a segment in its order, after all of what is encrypted was
// found to be what its header names. fn's error is returned as it is.
// Errors: those of ReadHeader, and ErrNoKey.
func Read(ctx context.Context, store objectstore.Store, at Ref, trusted Trusted, identities []age.Identity, fn func(Revision) error) (Header, error) {
	h, body, err := fetch(ctx, store, at, trusted)
	if err != nil {
		return h, fmt.Errorf("read log segment %d: %w", at.Number, err)
	}
	if len(identities) == 0 {
		return h, fmt.Errorf("read log segment %d: %w: it needs that of %s", at.Number, ErrNoKey, h.Key)
	}
	opened, err := age.Decrypt(bytes.NewReader(body), identities...)
	if none := new(age.NoIdentityMatchError); errors.As(err, &none) {
		return h, fmt.Errorf("read log segment %d: %w: it needs that of %s", at.Number, ErrNoKey, h.Key)
	}
	if err != nil {
		return h, fmt.Errorf("read log segment %d: %w: %w", at.Number, ErrCorrupt, err)
	}
	n, err := decode(opened, fn)
	if err == nil && n != h.Revisions {
		err = fmt.Errorf("%w: it has %d of %d revisions", ErrCorrupt, n, h.Revisions)
	}
	if errors.Is(err, ErrCorrupt) {
		err = fmt.Errorf("read log segment %d: %w", at.Number, err)
	}
	return h, err
}

// Compare reads all of a segment that needs no key, and compares it with its digests.
func Compare(ctx context.Context, store objectstore.Store, at Ref, trusted Trusted) (Header, error) {
	h, _, err := fetch(ctx, store, at, trusted)
	if err != nil {
		return h, fmt.Errorf("read log segment %d: %w", at.Number, err)
	}
	return h, nil
}

// fetch gives what is encrypted in a segment, compared with its digest.
func fetch(ctx context.Context, store objectstore.Store, at Ref, trusted Trusted) (Header, []byte, error) {
	r, err := store.Get(ctx, at.Name, 0, -1)
	if err != nil {
		return Header{}, nil, err
	}
	defer r.Close()
	buffered := bufio.NewReader(r)
	h, _, err := readHead(buffered, at, trusted)
	if err != nil {
		return h, nil, err
	}
	sum := sha256.New()
	body, err := io.ReadAll(io.TeeReader(io.LimitReader(buffered, h.Size+1), sum))
	if err != nil {
		return h, nil, err
	}
	if int64(len(body)) != h.Size || hex.EncodeToString(sum.Sum(nil)) != h.SHA256 {
		return h, nil, fmt.Errorf("%w: what is encrypted isn't what its header names", ErrCorrupt)
	}
	return h, body, nil
}

// lasting reports whether an error says what is wrong with a segment, and not with the store.
func lasting(err error) bool {
	return errors.Is(err, objectstore.ErrNotFound) || errors.Is(err, ErrCorrupt) || errors.Is(err, ErrForged)
}

// maxMemory bounds what decompression may take, in bytes.
const maxMemory = 64 << 20

// decode calls fn with the revisions of what was encrypted.
func decode(packed io.Reader, fn func(Revision) error) (n int, err error) {
	z, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxMemory))
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	defer z.Close()
	lines := bufio.NewScanner(z)
	lines.Buffer(make([]byte, 64<<10), MaxLine)
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return n, fmt.Errorf("%w: revision %d: %w", ErrCorrupt, n+1, err)
		}
		r := Revision{Subject: l.Subject, Seq: l.Seq, Time: l.Time, Headers: l.Headers, Value: l.Bytes}
		if l.Value != nil {
			r.Value = l.Value
		}
		n++
		if err := fn(r); err != nil {
			return n, err
		}
	}
	if err := lines.Err(); err != nil {
		return n, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return n, nil
}
