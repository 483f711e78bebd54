package main

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

const storeHelp = "where images go: s3://BUCKET/PREFIX?endpoint=https://HOST, dir:///PATH, or nothing for the data directory (DIAPAUSE_STORE)"

// place is an object store that was named, not opened yet.
type place struct {
	name string // the same for the same store, without credentials
	open func(ctx context.Context) (objectstore.Store, error)
}

// placeOf reads the name of a store; data is the data directory, where images go
// if no store is named.
func placeOf(text, data string, log *slog.Logger) (place, error) {
	switch {
	case text == "":
		return directory(datadir.OwnObjects, filepath.Join(data, datadir.OwnObjects)), nil
	case strings.HasPrefix(text, "dir://"):
		path := strings.TrimPrefix(text, "dir://")
		if !filepath.IsAbs(path) {
			return place{}, usagef("store %q: want dir:///absolute/path", text)
		}
		return directory("dir://"+filepath.Clean(path), path), nil
	case strings.HasPrefix(text, "s3:"):
		o, err := s3.Parse(text)
		if err != nil {
			return place{}, usageError{err}
		}
		return bucket(o, log), nil
	}
	return place{}, usagef("store %q: want s3://BUCKET/PREFIX?endpoint=https://HOST or dir:///PATH", text)
}

func directory(name, path string) place {
	return place{name, func(context.Context) (objectstore.Store, error) {
		s, err := dir.Open(path)
		if err != nil {
			return nil, err // not a nil *dir.Store
		}
		return s, nil
	}}
}

func bucket(o s3.Options, log *slog.Logger) place {
	// The way to it may change, the bucket not.
	name := "s3://" + strings.TrimSuffix(o.Bucket+"/"+o.Prefix, "/")
	return place{name, func(ctx context.Context) (objectstore.Store, error) {
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

// openStore opens the store that up was told to use.
func openStore(ctx context.Context, p place) (objectstore.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	s, err := p.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("use the store of images: %w", err)
	}
	return s, nil
}

// storeWait bounds the wait for a store at the start.
const storeWait = time.Minute
