package run

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/dir"
	"github.com/diapause/diapause/objectstore/retry"
	"github.com/diapause/diapause/objectstore/s3"
	"github.com/diapause/diapause/services/datadir"
)

// Place is an object store that was named and isn't opened yet.
type Place struct {
	Name string // the same for the same store, without credentials
	Open func(ctx context.Context) (objectstore.Store, error)
}

// Locate reads the name of a store: s3://BUCKET/PREFIX?endpoint=https://HOST,
// dir:///PATH, or nothing for the one in the data directory.
func Locate(text, data string, log *slog.Logger) (Place, error) {
	switch {
	case text == "":
		return directory(datadir.OwnObjects, filepath.Join(data, datadir.OwnObjects)), nil
	case strings.HasPrefix(text, "dir://"):
		path := strings.TrimPrefix(text, "dir://")
		if !filepath.IsAbs(path) {
			return Place{}, usagef("store %q: want dir:///absolute/path", text)
		}
		return directory("dir://"+filepath.Clean(path), path), nil
	case strings.HasPrefix(text, "s3:"):
		o, err := s3.Parse(text)
		if err != nil {
			return Place{}, usagef("%v", err)
		}
		return bucket(o, log), nil
	}
	return Place{}, usagef("store %q: want s3://BUCKET/PREFIX?endpoint=https://HOST or dir:///PATH", text)
}

func directory(name, path string) Place {
	return Place{name, func(context.Context) (objectstore.Store, error) {
		s, err := dir.Open(path)
		if err != nil {
			return nil, err // not a nil *dir.Store
		}
		return s, nil
	}}
}

func bucket(o s3.Options, log *slog.Logger) Place {
	// The way to it may change, the bucket not.
	name := "s3://" + strings.TrimSuffix(o.Bucket+"/"+o.Prefix, "/")
	return Place{name, func(ctx context.Context) (objectstore.Store, error) {
		s, err := s3.Open(ctx, o)
		if err != nil {
			return nil, err
		}
		if !s.Conditional() {
			log.Warn("the store has no conditional writes: it can't tell racing writers of one name apart; names here are unique", "store", name)
		}
		return retry.Wrap(s, retry.Options{Notify: func(err error, wait time.Duration) {
			log.Warn("the store fails, trying again", "store", name, "in", wait.Round(time.Millisecond), "err", err)
		}}), nil
	}}
}

// storeWait bounds the wait for a store at the start.
const storeWait = time.Minute

// open opens the store, which has to be the one that the data directory has used before.
func (c Images) open(ctx context.Context, data *datadir.Dir, log *slog.Logger) (objectstore.Store, error) {
	at, err := Locate(c.Store, data.Path(), log)
	if err != nil {
		return nil, err
	}
	s, err := at.opened(ctx)
	if err != nil {
		return nil, err
	}
	return s, data.UseStore(at.Name, c.Moved)
}

// opened opens it; one that doesn't answer is waited for.
func (p Place) opened(ctx context.Context) (objectstore.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	s, err := p.Open(ctx)
	if err != nil {
		return nil, fmt.Errorf("use the store of images: %w", err)
	}
	return s, nil
}
