package image

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"
)

// Here are the fuzz targets of objects as they come from the store; those of headers,
// indexes, page ids and keys stand beside the tests of what parses them.

func FuzzSnapshotName(f *testing.F) {
	for _, s := range []string{"acme/lin1/snaps/3-1", "acme/lin1/snaps/03-1", "a/b/snaps/18446744073709551615-0", "a/b/snaps/1-1/x", "../b/snaps/1-1", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		l, err := lineageOf(name)
		if err != nil {
			return
		}
		epoch, seq, err := l.parseSnap(name)
		if err != nil || l.snap(epoch, seq) != name {
			t.Fatalf("%q is accepted, and is not the name of snapshot %d-%d: %v", name, epoch, seq, err)
		}
		if strings.Contains(name, "..") || strings.Count(name, "/") != 3 {
			t.Fatalf("%q is accepted and leads elsewhere", name)
		}
	})
}

// FuzzWrap has the object itself, as it comes from the store.
func FuzzWrap(f *testing.F) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		f.Fatal(err)
	}
	good, err := encrypt([]byte("AGE-SECRET-KEY-1"), id.Recipient())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add([]byte("age-encryption.org/v1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := decrypt(data, id)
		if err == nil && !bytes.Equal(data, good) {
			t.Fatal("an object that was never encrypted to us is opened")
		}
		if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNoKey) {
			t.Fatalf("error %v, want ErrCorrupt or ErrNoKey", err)
		}
	})
}

// FuzzFrame takes any bytes for the content of a decrypted pack: a frame has as
// many pages as the index says, or is refused.
func FuzzFrame(f *testing.F) {
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(enc.EncodeAll(make([]byte, PageSize), nil), int64(1))
	f.Add(enc.EncodeAll(bytes.Repeat([]byte("text "), PageSize), nil), int64(5))
	f.Add(enc.EncodeAll(make([]byte, 64<<20), nil), int64(1)) // little that becomes much
	f.Add([]byte{}, int64(1))
	dec, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxFrame*PageSize))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(dec.Close)
	f.Fuzz(func(t *testing.T, stored []byte, pages int64) {
		if pages < 1 || pages > maxFrame {
			return // the index refuses these
		}
		p := &packReader{r: &Reader{zstd: dec}, plain: bytes.NewReader(stored), name: "pack"}
		data, err := p.decode(frame{size: int64(len(stored)), pages: pages}, nil)
		switch {
		case err == nil && int64(len(data)) != pages*PageSize:
			t.Fatalf("%d bytes for %d pages", len(data), pages)
		case err != nil && !errors.Is(err, ErrCorrupt):
			t.Fatalf("error %v, want ErrCorrupt", err)
		}
	})
}

// FuzzSnapshot has a whole snapshot object in the place of a good one: no other is
// opened. Reading goes on in several goroutines, so that what an input reaches varies: with
// -fuzzminimizetime 10x it tries others, instead of making one smaller for a minute.
func FuzzSnapshot(f *testing.F) {
	good, err := os.ReadFile("testdata/golden/store/acme/lin1/snaps/3-2")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add(bytes.Replace(good, []byte(`"seq":2`), []byte(`"seq":1`), 1))
	f.Fuzz(func(t *testing.T, data []byte) {
		if bytes.Equal(data, good) {
			return
		}
		x, head := goldenFixture(t)
		replace(t, x.path(head.Name), data)
		r, err := Open(t.Context(), x.store, head, x.readOptions())
		if err == nil {
			r.Close()
			t.Fatal("another object than the one that was written is opened")
		}
		if !refused(err) {
			t.Fatalf("error %v, want one that says that it is damaged or forged", err)
		}
	})
}
