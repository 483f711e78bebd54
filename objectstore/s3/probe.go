package s3

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/minio/minio-go/v7"

	"github.com/diapause/diapause/objectstore"
)

// How the server is tried: a server without conditional writes lets all writers
// through, one that checks before it locks lets more than one through sooner or
// later.
const (
	probeRounds  = 4
	probeWriters = 8
)

// probe lets writers race for a name and reports whether exactly one succeeded in
// every round.
func (s *Store) probe(ctx context.Context) (bool, error) {
	for range probeRounds {
		won, err := s.race(ctx, s.prefix+".probe/"+rand.Text())
		if err != nil || won != 1 {
			return false, err
		}
	}
	return true, nil
}

// race returns how many of the writers were told that they wrote the object.
func (s *Store) race(ctx context.Context, key string) (won int, err error) {
	defer func() {
		// A bucket that keeps versions has them of this object too.
		if failed := s.delete(context.WithoutCancel(ctx), key); err == nil && failed != nil {
			err = fmt.Errorf("remove what was written: %w", failed)
		}
	}()
	var g errgroup.Group
	var results [probeWriters]bool
	for i := range probeWriters {
		g.Go(func() error {
			var o minio.PutObjectOptions
			o.DisableMultipart = true
			o.SetMatchETagExcept("*")
			content := []byte{byte(i)}
			_, err := s.client.Client.PutObject(ctx, s.bucket, key, bytes.NewReader(content), 1, o)
			results[i] = err == nil
			switch err = kind(err); {
			case err == nil, errors.Is(err, objectstore.ErrExists):
				return nil
			case notImplemented(err):
				return nil // no conditions here
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	for _, ok := range results {
		if ok {
			won++
		}
	}
	return won, nil
}
