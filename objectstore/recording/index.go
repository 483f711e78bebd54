package recording

import (
	"bytes"
	"cmp"
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
	"strings"
	"sync"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
)

// IndexHeader is what an index of a recording says of itself in clear: nothing of what was printed.
type IndexHeader struct {
	UID    schemas.UID    `json:"uid"`
	Covers Ref            `json:"covers"` // the last segment that is in it
	Signer schemas.HostID `json:"signer"`
	// Redacted is the generation of what was redacted of the recording that was read for it. It counts for no other.
	Redacted uint64 `json:"redacted,omitempty"`

	Size   int64  `json:"size"`   // of what is encrypted, in bytes
	SHA256 string `json:"sha256"` // of what is encrypted
}

// indexSuffix is added to the name of the segment's object up to which an index is. It says which form the index has: one of another
// form isn't found.
const indexSuffix = indexMark + "1"

// indexMark is before the form of an index in the name of its object.
const indexMark = ".index-"

const indexMagic = "diapause-index 1"

// MaxIndex bounds an index, in bytes, before it is compressed.
const MaxIndex = 1 << 30

// IndexName is the name of the object of an index.
func (p Place) IndexName(run string, number uint64) string { return p.Name(run, number) + indexSuffix }

// PutIndex stores an index of a recording, up to a segment, encrypted to the key of that segment's run. Then it deletes those before. One that is there
// already stays.
func PutIndex(ctx context.Context, store objectstore.Store, p Place, h IndexHeader, index []byte, of age.Identity, signer ed25519.PrivateKey) error {
	if len(index) > MaxIndex {
		return fmt.Errorf("store an index: it has %d bytes", len(index))
	}
	to, err := recipientOf(of)
	if err != nil {
		return fmt.Errorf("store an index: %w", err)
	}
	sealed, err := pack(index, to)
	if err != nil {
		return fmt.Errorf("store an index: %w", err)
	}
	sum := sha256.Sum256(sealed)
	h.UID, h.Size, h.SHA256 = p.UID, int64(len(sealed)), hex.EncodeToString(sum[:])
	line, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("store an index: %w", err)
	}
	signed := []byte(indexMagic + "\n" + string(line) + "\n")
	object := slices.Concat(signed, []byte(base64.StdEncoding.EncodeToString(ed25519.Sign(signer, signed))+"\n"), sealed)
	name := p.IndexName(h.Covers.Run, h.Covers.Number)
	err = store.Put(ctx, name, bytes.NewReader(object), int64(len(object)))
	if err != nil && !errors.Is(err, objectstore.ErrExists) {
		return fmt.Errorf("store an index: %w", err)
	}
	return dropIndexes(ctx, store, p, name)
}

// DropIndexes deletes all indexes of a recording.
func DropIndexes(ctx context.Context, store objectstore.Store, p Place) error {
	return dropIndexes(ctx, store, p, "")
}

func dropIndexes(ctx context.Context, store objectstore.Store, p Place, but string) error {
	all, err := listIndexes(ctx, store, p)
	if err != nil {
		return err
	}
	for _, at := range all {
		if name := p.IndexName(at.Run, at.Number); name != but {
			if err := store.Delete(ctx, name); err != nil {
				return fmt.Errorf("delete an index: %w", err)
			}
		}
	}
	return nil
}

// listIndexes lists the segments up to which there are indexes, in their order.
func listIndexes(ctx context.Context, store objectstore.Store, p Place) (all []Ref, err error) {
	err = store.List(ctx, p.prefix(), func(i objectstore.Info) error {
		name, is := strings.CutSuffix(i.Name, indexSuffix)
		if run, number, ok := p.parseName(name); is && ok {
			all = append(all, Ref{Run: run, Number: number})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list indexes: %w", err)
	}
	slices.SortFunc(all, func(a, b Ref) int { return cmp.Or(cmp.Compare(a.Run, b.Run), cmp.Compare(a.Number, b.Number)) })
	return all, nil
}

// Oldest gives the segment that is the first by its name, without its digest; nil if there is none.
func Oldest(ctx context.Context, store objectstore.Store, p Place) (*Ref, error) {
	all, err := list(ctx, store, p)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

// isIndex reports whether a name is that of an index of any form.
func (p Place) isIndex(name string) bool {
	base, _, is := strings.Cut(name, indexMark)
	_, _, ok := p.parseName(base)
	return is && ok
}

// LastIndex gives the last index of a recording that can be read and is signed by a key which is trusted; nil if there is none. Whether its
// segment is one of the recording, and nothing was redacted since, is for the caller to find out. key gives what the segments of a run are
// encrypted to. The error is the store's, or that of key for the last one.
func LastIndex(ctx context.Context, store objectstore.Store, p Place, trusted func(signer string) []ed25519.PublicKey, key func(ctx context.Context, run string) (age.Identity, error)) (index []byte, h IndexHeader, err error) {
	all, err := listIndexes(ctx, store, p)
	if err != nil {
		return nil, h, err
	}
	for _, at := range slices.Backward(all) {
		id, err := key(ctx, at.Run)
		if err != nil {
			return nil, h, err
		}
		index, h, err := readIndex(ctx, store, p, at, trusted, id)
		if err == nil || !lasting(err) {
			return index, h, err
		}
	}
	return nil, h, nil
}

func readIndex(ctx context.Context, store objectstore.Store, p Place, at Ref, trusted func(signer string) []ed25519.PublicKey, key age.Identity) (index []byte, h IndexHeader, err error) {
	r, err := store.Get(ctx, p.IndexName(at.Run, at.Number), 0, maxHead+MaxIndex)
	if err != nil {
		return nil, h, fmt.Errorf("read an index: %w", err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, h, fmt.Errorf("read an index: %w", err)
	}
	lines := bytes.SplitAfterN(data, []byte("\n"), 4)
	if len(lines) != 4 || string(lines[0]) != indexMagic+"\n" {
		return nil, h, fmt.Errorf("read an index: %w: it does not begin as one", ErrCorrupt)
	}
	if err := json.Unmarshal(lines[1], &h); err != nil {
		return nil, h, fmt.Errorf("read an index: %w: %w", ErrCorrupt, err)
	}
	signature, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSuffix(string(lines[2]), "\n"))
	if err != nil {
		return nil, h, fmt.Errorf("read an index: %w: %w", ErrCorrupt, err)
	}
	signed := data[:len(lines[0])+len(lines[1])]
	genuine := slices.ContainsFunc(trusted(string(h.Signer)), func(key ed25519.PublicKey) bool { return ed25519.Verify(key, signed, signature) })
	if !genuine || h.UID != p.UID || h.Covers.Run != at.Run || h.Covers.Number != at.Number {
		return nil, h, fmt.Errorf("read an index: %w", ErrForged)
	}
	if err := (Body{Size: h.Size, SHA256: h.SHA256}).Holds(lines[3]); err != nil {
		return nil, h, fmt.Errorf("read an index: %w", err)
	}
	index, err = unpack(lines[3], key)
	return index, h, err
}

// recipientOf gives the public half of a key.
func recipientOf(key age.Identity) (age.Recipient, error) {
	switch key := key.(type) {
	case *age.X25519Identity:
		return key.Recipient(), nil
	case *age.HybridIdentity:
		return key.Recipient(), nil
	}
	return nil, fmt.Errorf("the key is a %T", key)
}

// pack compresses and encrypts.
func pack(data []byte, to age.Recipient) ([]byte, error) {
	var out bytes.Buffer
	sealed, err := age.Encrypt(&out, to)
	if err != nil {
		return nil, err
	}
	packed, err := zstd.NewWriter(sealed, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, err
	}
	if _, err := packed.Write(data); err != nil {
		return nil, err
	}
	if err := packed.Close(); err != nil {
		return nil, err
	}
	if err := sealed.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// unpack undoes pack.
func unpack(sealed []byte, key age.Identity) ([]byte, error) {
	opened, err := age.Decrypt(bytes.NewReader(sealed), key)
	if err != nil {
		return nil, fmt.Errorf("read an index: %w: %w", ErrCorrupt, err)
	}
	packed, err := io.ReadAll(io.LimitReader(opened, MaxIndex+1))
	if err != nil {
		return nil, fmt.Errorf("read an index: %w: %w", ErrCorrupt, err)
	}
	z, err := unpacker()
	if err != nil {
		return nil, err
	}
	data, err := z.DecodeAll(packed, nil)
	if err == nil && len(data) > MaxIndex {
		err = errors.New("it is too large")
	}
	if err != nil {
		return nil, fmt.Errorf("read an index: %w: %w", ErrCorrupt, err)
	}
	return data, nil
}

// unpacker is one for all indexes, since a search opens many: one that streams would take memory for a window each time.
var unpacker = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderMaxMemory(MaxIndex+1))
})
