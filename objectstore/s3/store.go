package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/diapause/diapause/objectstore"
)

func (s *Store) key(name string) string { return s.prefix + name }

// maxObject is what S3 takes in one PUT, in bytes.
const maxObject = 5 << 30

// Put implements objectstore.Store.
func (s *Store) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	if err := objectstore.CheckName(name); err != nil {
		return err
	}
	if size < 0 || size > maxObject {
		return fmt.Errorf("put %s: %w: %d bytes", name, objectstore.ErrSize, size)
	}
	rewind := rewinding(r)
	err := s.put(ctx, s.key(name), r, size)
	// MinIO on one drive answers so, too, when it removes a directory at that moment, with the last
	// object that was in it.
	for again := 0; again < deniedAgain && errors.Is(err, objectstore.ErrDenied) && rewind(); again++ {
		err = s.put(ctx, s.key(name), r, size)
	}
	if err != nil {
		return fmt.Errorf("put %s: %w", name, err)
	}
	return nil
}

// deniedAgain is how often an object is put again to which the store has denied access.
const deniedAgain = 2

// rewinding gives what has a reader begin again where it stands, and reports whether it can.
func rewinding(r io.Reader) func() bool {
	seeker, ok := r.(io.Seeker)
	if !ok {
		return func() bool { return false }
	}
	start, err := seeker.Seek(0, io.SeekCurrent)
	return func() bool {
		if err == nil {
			_, err = seeker.Seek(start, io.SeekStart)
		}
		return err == nil
	}
}

func (s *Store) put(ctx context.Context, key string, r io.Reader, size int64) error {
	if !s.conditional {
		_, err := s.client.StatObject(ctx, s.bucket, key, minio.StatObjectOptions{})
		if err == nil {
			return objectstore.ErrExists
		}
		if !missing(err) {
			return kind(err)
		}
	}
	var o minio.PutObjectOptions
	o.DisableMultipart = true
	if sum, known := checksum(r, size); known {
		o.UserMetadata = map[string]string{"x-amz-checksum-crc32c": sum}
		o.DisableContentSha256 = true
	}
	if s.conditional {
		o.SetMatchETagExcept("*")
	}
	b := &body{ctx: ctx, source: r, size: size}
	var from io.Reader = b
	if size == 0 {
		// What is empty is never read by the client.
		if err := b.end(); err != nil {
			return err
		}
		from = bytes.NewReader(nil)
	}
	_, err := s.client.Client.PutObject(ctx, s.bucket, key, from, size, o)
	if b.err != nil {
		return b.err
	}
	return kind(err)
}

// Get implements objectstore.Store.
func (s *Store) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if err := objectstore.CheckName(name); err != nil {
		return nil, err
	}
	if offset < 0 || length < -1 {
		return nil, fmt.Errorf("get %s: %w: offset %d, length %d", name, objectstore.ErrRange, offset, length)
	}
	r, err := s.get(ctx, s.key(name), offset, length)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", name, err)
	}
	return r, nil
}

func (s *Store) get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if length == 0 {
		_, err := s.client.StatObject(ctx, s.bucket, key, minio.StatObjectOptions{})
		return http.NoBody, kind(err)
	}
	var o minio.GetObjectOptions
	switch {
	case length > 0:
		o.Set("Range", fmt.Sprintf("bytes=%d-%d", offset, offset+length-1))
	case offset > 0:
		o.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	r, _, _, err := s.client.GetObject(ctx, s.bucket, key, o)
	if minio.ToErrorResponse(err).Code == minio.InvalidRange {
		return http.NoBody, nil // from the object's end on there is nothing
	}
	if err != nil {
		return nil, kind(err)
	}
	return r, nil
}

// List implements objectstore.Store.
func (s *Store) List(ctx context.Context, prefix string, fn func(objectstore.Info) error) error {
	if dir, _, ok := cutLast(prefix); ok {
		if err := objectstore.CheckName(dir); err != nil {
			return fmt.Errorf("list %q: %w", prefix, err)
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for o := range s.client.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.key(prefix), Recursive: true}) {
		if o.Err != nil {
			return fmt.Errorf("list %q: %w", prefix, kind(o.Err))
		}
		name := strings.TrimPrefix(o.Key, s.prefix)
		if objectstore.CheckName(name) != nil {
			continue // not one of ours
		}
		if err := fn(objectstore.Info{Name: name, Size: o.Size, ModTime: o.LastModified}); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("list %q: %w", prefix, err)
	}
	return nil
}

func cutLast(prefix string) (dir, rest string, ok bool) {
	i := strings.LastIndexByte(prefix, '/')
	if i < 0 {
		return "", prefix, false
	}
	return prefix[:i], prefix[i+1:], true
}

// Delete implements objectstore.Store. Where the bucket keeps versions, all of
// them go, with the marks of earlier deletions.
func (s *Store) Delete(ctx context.Context, name string) error {
	if err := objectstore.CheckName(name); err != nil {
		return err
	}
	if err := s.delete(ctx, s.key(name)); err != nil {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	return nil
}

func (s *Store) delete(ctx context.Context, key string) error {
	kept, err := s.versions.kept(ctx, s)
	if err != nil {
		return err
	}
	if !kept {
		err := s.client.RemoveObject(ctx, s.bucket, key, minio.RemoveObjectOptions{})
		if missing(err) {
			return nil
		}
		return kind(err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for o := range s.client.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{Prefix: key, Recursive: true, WithVersions: true}) {
		if o.Err != nil {
			return kind(o.Err)
		}
		if o.Key != key {
			continue
		}
		if err := s.client.RemoveObject(ctx, s.bucket, key, minio.RemoveObjectOptions{VersionID: o.VersionID}); err != nil && !missing(err) {
			return kind(err)
		}
	}
	return ctx.Err()
}

// versions knows whether the bucket keeps versions. That can be changed at any
// time, so it is asked again after a while.
type versions struct {
	mu    sync.Mutex
	until time.Time
	are   bool
}

const versionsKnown = time.Minute

func (v *versions) kept(ctx context.Context, s *Store) (bool, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if time.Now().Before(v.until) {
		return v.are, nil
	}
	c, err := s.client.GetBucketVersioning(ctx, s.bucket)
	switch {
	case notImplemented(err):
		v.are = false
	case err != nil:
		return false, fmt.Errorf("ask whether the bucket keeps versions: %w", kind(err))
	default:
		v.are = c.Enabled() || c.Suspended()
	}
	v.until = time.Now().Add(versionsKnown)
	return v.are, nil
}
