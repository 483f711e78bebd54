package image

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/diapause/diapause/objectstore"
)

// countingStore counts the bytes of packs that are asked for.
type countingStore struct {
	objectstore.Store
	packs atomic.Int64
}

func (c *countingStore) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	body, err := c.Store.Get(ctx, name, offset, length)
	if err != nil || !isPack(name) {
		return body, err
	}
	return &countedBody{body, &c.packs}, nil
}

func isPack(name string) bool { return filepath.Base(filepath.Dir(name)) == "packs" }

type countedBody struct {
	io.ReadCloser
	n *atomic.Int64
}

func (c *countedBody) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// scattering is how much scattered writes.
type scattering struct{ files, each, generations int }

// sized is how much a test writes: little, and what a browser does where it may take long.
func sized() scattering {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return scattering{2, 48, 3}
	}
	return scattering{4, 128, 10}
}

// scattered writes some generations of a session whose pages move about in memory and
// change, as those of a browser do, and returns what the last one holds. Its reader
// keeps little.
func scattered(f *fixture) (*Reader, *countingStore, []item) {
	f.Helper()
	size := sized()
	files, each := size.files, size.each
	r := rand.New(rand.NewPCG(1, 2))
	pool := text(files * each * PageSize)
	var head Head
	var base *Base
	var items []item
	for g := range size.generations {
		o := f.options()
		if base != nil {
			o.Parent, o.Base = &head, base
		}
		o.cuts = cuts{frame: 8, pages: 64, bytes: 128 << 10}
		o.Budget = Budget{MinLive: 0.01, MaxPacks: maxBudgetPacks}
		if g > 0 {
			for range files * each / 10 {
				at := r.IntN(files*each) * PageSize
				copy(pool[at:at+PageSize], random(PageSize))
			}
		}
		items = nil
		for i := range files {
			data := make([]byte, 0, each*PageSize)
			for range each {
				// Some pages are there several times, others not at all.
				at := r.IntN(files*each) * PageSize
				data = append(data, pool[at:at+PageSize]...)
			}
			clear(data[7*PageSize : 9*PageSize])
			items = append(items, fileItem(fmt.Sprintf("criu/pages-%d.img", i+1), data[:len(data)-i*100]))
		}
		var w *Writer
		w, head, _ = f.write(o, items)
		base = w.Base()
	}
	counted := &countingStore{Store: f.store}
	f.store = counted
	reader := f.open(head)
	reader.frames.limit, reader.spans.limit = 40<<10, 1<<20
	return reader, counted, items
}

// needed is what all frames of an image have, in bytes.
func (r *Reader) needed() (sum int64) {
	for _, id := range r.order {
		sum += r.packs[id.pack].frames[id.frame].pages * PageSize
	}
	return sum
}

// Contents that are placed are decoded once and fetched once, however they are scattered.
func TestPlaceDecodesOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r, store, items := scattered(f)
	var targets []Target
	for i, it := range items {
		to, err := os.Create(filepath.Join(t.TempDir(), fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		defer to.Close()
		if err := to.Truncate(it.Size); err != nil {
			t.Fatal(err)
		}
		targets = append(targets, Target{it.Name, to})
	}
	if err := r.Place(t.Context(), targets); err != nil {
		t.Fatal(err)
	}
	for i, it := range items {
		got, err := os.ReadFile(targets[i].To.(*os.File).Name())
		if err != nil || !bytes.Equal(got, it.data) {
			t.Fatalf("%s: %d bytes that differ (%v)", it.Name, len(got), err)
		}
	}
	if r.Given() != r.needed() {
		t.Errorf("decoded %d bytes for frames of %d", r.Given(), r.needed())
	}
	var stored int64
	for _, p := range r.packs {
		stored += p.ref.Size
	}
	if got := store.packs.Load(); got > stored {
		t.Errorf("fetched %d bytes of packs that have %d", got, stored)
	}
}

// Files that are read one after the other are decoded once, if what is needed again may
// be kept; else some of it again, and that is counted.
func TestSequenceDecodesOnce(t *testing.T) {
	t.Parallel()
	for _, limit := range []int64{1 << 30, 100 << 10, 0} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			r, _, items := scattered(f)
			var names []string
			for _, it := range items {
				names = append(names, it.Name)
			}
			slices.Reverse(names) // in an order of its own
			r.Sequence(names, limit)
			for i, name := range names {
				in, err := r.Open(name)
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(in)
				if want := items[len(items)-1-i].data; err != nil || !bytes.Equal(got, want) {
					t.Fatalf("%s: %d bytes that differ (%v)", name, len(got), err)
				}
				in.Close()
				if held := r.spill.held(); held > limit {
					t.Errorf("%d bytes are kept, more than %d", held, limit)
				}
			}
			again := r.Given() - r.needed()
			if got := r.Times().Again; got != again {
				t.Errorf("counted %d bytes that were decoded again, want %d", got, again)
			}
			if limit > 1<<20 && again != 0 {
				t.Errorf("decoded %d bytes again although there was room to keep them", again)
			}
			if limit == 0 && again == 0 {
				t.Error("nothing was decoded again: the pages aren't scattered")
			}
			if held := r.spill.held(); limit > 1<<20 && held != 0 {
				t.Errorf("%d bytes are kept that nothing needs", held)
			}
		})
	}
}
