package image

import (
	"context"
	"errors"
	"fmt"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
)

// firstGet is how much of a snapshot object is asked for to read its header:
// enough for some 700 packs.
const firstGet = 256 << 10

// fetchLines reads the clear part of a snapshot and believes nothing of it.
func fetchLines(ctx context.Context, store objectstore.Store, name string) (signedHeader, error) {
	s, err := fetchUpTo(ctx, store, name, firstGet)
	if errors.Is(err, errShort) {
		s, err = fetchUpTo(ctx, store, name, maxHeader)
	}
	if err != nil && !errors.Is(err, errFetch) {
		return s, fmt.Errorf("%w: %s: %w", ErrCorrupt, name, err)
	}
	return s, err
}

// errFetch marks an error of the store, as opposed to one of what it gave.
var errFetch = errors.New("fetch header")

func fetchUpTo(ctx context.Context, store objectstore.Store, name string, limit int64) (signedHeader, error) {
	data, err := getRange(ctx, store, name, 0, limit)
	if err != nil {
		return signedHeader{}, fmt.Errorf("%w: %w", errFetch, err)
	}
	return splitHeader(data)
}

// fetchHeader reads the clear part of a snapshot and parses it.
func fetchHeader(ctx context.Context, store objectstore.Store, name string) (signedHeader, error) {
	s, err := fetchLines(ctx, store, name)
	if err != nil {
		return s, err
	}
	if err := s.parse(); err != nil {
		return s, fmt.Errorf("%w: %s: %w", ErrCorrupt, name, err)
	}
	return s, nil
}

// fetchTrusted reads the header of a snapshot and checks that a trusted writer
// made it for this very place.
func fetchTrusted(ctx context.Context, store objectstore.Store, l lineage, name string, trusted Trusted) (signedHeader, error) {
	s, err := fetchHeader(ctx, store, name)
	if err != nil {
		return s, err
	}
	return s, s.check(l, name, trusted)
}

// check verifies the signature and that the header belongs to its name.
func (s signedHeader) check(l lineage, name string, trusted Trusted) error {
	if err := s.verify(trusted); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	h := s.header
	if h.Tenant != l.tenant || h.Lineage != l.id || l.snap(h.Epoch, h.Seq) != name {
		return fmt.Errorf("%w: %s holds the header of %s", ErrForged, name, lineage{h.Tenant, h.Lineage}.snap(h.Epoch, h.Seq))
	}
	return nil
}

// fetchHead reads the header that a head points at, and nothing else that may
// stand in its place.
func fetchHead(ctx context.Context, store objectstore.Store, l lineage, head Head, o ReadOptions) (signedHeader, error) {
	s, err := fetchLines(ctx, store, head.Name)
	if err != nil {
		return s, err
	}
	if s.digest() != head.Digest {
		if s.parse() == nil && s.verify(o.Trusted) == nil {
			return s, fmt.Errorf("%w: %s is another snapshot than the one that the record names", ErrForged, head.Name)
		}
		return s, fmt.Errorf("%w: %s: its header does not have the recorded digest", ErrCorrupt, head.Name)
	}
	if err := s.parse(); err != nil {
		return s, fmt.Errorf("%w: %s: %w", ErrCorrupt, head.Name, err)
	}
	if err := s.check(l, head.Name, o.Trusted); err != nil {
		return s, err
	}
	if err := o.Expect.meets(s.header); err != nil {
		return s, fmt.Errorf("%s: %w", head.Name, err)
	}
	return s, nil
}

// fetchObject reads length bytes from offset on, to the object's end, and checks
// their digest. An object that is missing or of another size is damaged: what
// names it was written after it.
func fetchObject(ctx context.Context, store objectstore.Store, name string, offset int64, want schemas.ImageObject) ([]byte, error) {
	data, err := getRange(ctx, store, name, offset, want.Size+1)
	if errors.Is(err, objectstore.ErrNotFound) {
		return nil, fmt.Errorf("%w: %s is missing", ErrCorrupt, name)
	}
	if err != nil {
		return nil, err
	}
	if int64(len(data)) != want.Size || hexDigest(data) != want.SHA256 {
		return nil, fmt.Errorf("%w: %s is not what was written", ErrCorrupt, name)
	}
	return data, nil
}
