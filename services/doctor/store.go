package doctor

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/dir"
)

// Store checks the object store of a data directory, or before the first start
// one that is made for the purpose on the same file system: it writes, is refused
// a second write under the same name, reads all and a part, lists and deletes.
func Store(path string, s *Scratch) Check {
	return Check{
		Name: "store", What: "the object store writes, refuses to overwrite, reads, lists and deletes",
		Needs: []string{NameData, NameScratch},
		Run: func(ctx context.Context) Result {
			root := filepath.Join(path, "objects")
			if _, err := os.Stat(root); err != nil {
				if root, err = s.Make("objects"); err != nil {
					return failed(err, storeFix)
				}
			}
			store, err := dir.Open(root)
			if err != nil {
				return failed(err, storeFix)
			}
			r := tryStore(ctx, store)
			if r.Status == OK {
				r.Detail += ", in " + root
			}
			return r
		},
	}
}

// NamedStore checks the object store that `up --store` is to use, in the same way.
func NamedStore(where string, open func(context.Context) (objectstore.Store, error)) Check {
	return Check{
		Name: "store", What: "the object store writes, refuses to overwrite, reads, lists and deletes",
		Run: func(ctx context.Context) Result {
			ctx, cancel := context.WithTimeout(ctx, namedStoreWait)
			defer cancel()
			store, err := open(ctx)
			if err != nil {
				return failed(err, namedStoreFix)
			}
			r := tryStore(ctx, store)
			if r.Status == OK {
				r.Detail += ", in " + where
			} else {
				r.Fix = namedStoreFix
			}
			return r
		},
	}
}

// namedStoreWait bounds the check of a store that may be away.
const namedStoreWait = 30 * time.Second

const namedStoreFix = "look at the store's address, its bucket, and the credentials in the environment (services/OPERATIONS.md, An S3 store)"

const storeFix = "keep the data directory on a local ext4, xfs or btrfs with room left (--data), and look for errors of the disk (dmesg)"

// objectSize is of the object that is written: two of the chunks that images are
// read in, and a bit.
const objectSize = 2<<20 + 12345

// tryStore takes one object, under a name of its own, through its life.
func tryStore(ctx context.Context, store objectstore.Store) Result {
	content := make([]byte, objectSize)
	if _, err := rand.Read(content); err != nil {
		return failed(err, storeFix)
	}
	prefix := "doctor-" + strings.ToLower(rand.Text()[:16]) + "/"
	p := probe{ctx: ctx, store: store, name: prefix + "probe", content: content}
	began := time.Now()
	err := p.write()
	wrote := time.Since(began)
	if err == nil {
		err = errors.Join(p.refuse(), p.read(), p.list(prefix))
	}
	// Also after a write that failed: its outcome may be unknown.
	if deleteErr := p.remove(); deleteErr != nil {
		err = errors.Join(err, deleteErr)
	}
	if err != nil {
		return failed(err, storeFix)
	}
	r := okf("2 MB written and synced in %s, a second write refused", wrote.Round(100*time.Microsecond))
	r.Measured = map[string]int64{"write_ms": wrote.Milliseconds(), "bytes": objectSize}
	return r
}

type probe struct {
	ctx     context.Context
	store   objectstore.Store
	name    string
	content []byte
}

func (p probe) write() error {
	return p.store.Put(p.ctx, p.name, bytes.NewReader(p.content), objectSize)
}

func (p probe) refuse() error {
	err := p.store.Put(p.ctx, p.name, bytes.NewReader(p.content[:10]), 10)
	if err == nil {
		return errors.New("the store let an object be overwritten")
	}
	if !errors.Is(err, objectstore.ErrExists) {
		return fmt.Errorf("write under a name that is taken: %w", err)
	}
	return nil
}

func (p probe) read() error {
	return errors.Join(p.readRange(0, -1, p.content), p.readRange(1<<20-7, 4096, p.content[1<<20-7:1<<20-7+4096]))
}

func (p probe) readRange(offset, length int64, want []byte) (err error) {
	r, err := p.store.Get(p.ctx, p.name, offset, length)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	got, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("read %s: %w", p.name, err)
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("read back %d bytes from offset %d: not what was written", len(got), offset)
	}
	return nil
}

func (p probe) list(prefix string) error {
	var sizes []int64
	err := p.store.List(p.ctx, prefix, func(i objectstore.Info) error {
		sizes = append(sizes, i.Size)
		return nil
	})
	if err == nil && (len(sizes) != 1 || sizes[0] != objectSize) {
		err = fmt.Errorf("list: got %d objects (sizes %v), want one of %d bytes", len(sizes), sizes, objectSize)
	}
	return err
}

// removeWait bounds the removal, which goes on when the caller has given up.
const removeWait = 20 * time.Second

func (p probe) remove() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), removeWait)
	defer cancel()
	if err := p.store.Delete(ctx, p.name); err != nil {
		return err
	}
	r, err := p.store.Get(ctx, p.name, 0, 1)
	if err == nil {
		r.Close()
		return errors.New("the store gives an object back that was deleted")
	}
	if !errors.Is(err, objectstore.ErrNotFound) {
		return err
	}
	return nil
}
