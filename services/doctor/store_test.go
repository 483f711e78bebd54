package doctor

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/dir"
)

// faulty is a store with one fault.
type faulty struct {
	objectstore.Store
	fault string
}

func (f faulty) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	if f.fault == "full" {
		return objectstore.ErrFull
	}
	err := f.Store.Put(ctx, name, r, size)
	if f.fault == "overwrites" && errors.Is(err, objectstore.ErrExists) {
		return nil
	}
	return err
}

func (f faulty) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if f.fault == "ignores ranges" {
		offset = 0
	}
	r, err := f.Store.Get(ctx, name, offset, length)
	if f.fault == "damages" && err == nil && length < 0 {
		b, _ := io.ReadAll(r)
		r.Close()
		b[77]++
		return io.NopCloser(bytes.NewReader(b)), nil
	}
	return r, err
}

func (f faulty) List(ctx context.Context, prefix string, fn func(objectstore.Info) error) error {
	if f.fault == "forgets" {
		return nil
	}
	return f.Store.List(ctx, prefix, fn)
}

func (f faulty) Delete(ctx context.Context, name string) error {
	if f.fault == "keeps" {
		return nil
	}
	return f.Store.Delete(ctx, name)
}

func TestStoreFaultsAreFound(t *testing.T) {
	for fault, says := range map[string]string{
		"full": "full", "overwrites": "overwritten", "damages": "not what was written",
		"ignores ranges": "not what was written", "forgets": "got 0 objects", "keeps": "was deleted",
	} {
		root := t.TempDir()
		store, err := dir.Open(root)
		if err != nil {
			t.Fatal(err)
		}
		want(t, fault, tryStore(t.Context(), faulty{store, fault}), Fail, says)
		if left := names(t, root); fault != "keeps" && left != ".tmp" {
			t.Errorf("%s: left in the store: %s", fault, left)
		}
	}
}

func TestStore(t *testing.T) {
	data := initialised(t)
	s := scratch(t, data)
	want(t, "before the first use", Store(data, s).Run(t.Context()), OK, s.dir)
	objects := filepath.Join(data, "objects")
	if _, err := os.Stat(objects); err == nil {
		t.Error("the store was made")
	}
	if _, err := dir.Open(objects); err != nil {
		t.Fatal(err)
	}
	r := Store(data, s).Run(t.Context())
	want(t, "in use", r, OK, objects)
	if r.Measured["bytes"] != objectSize {
		t.Errorf("measured %v", r.Measured)
	}
	if left := names(t, objects); left != ".tmp" {
		t.Errorf("left in the store: %s", left)
	}
}

func TestStoreThatIsNoDirectory(t *testing.T) {
	data := initialised(t)
	s := scratch(t, data)
	if err := os.WriteFile(filepath.Join(data, "objects"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, "a file", Store(data, s).Run(t.Context()), Fail, "not a directory")
}
