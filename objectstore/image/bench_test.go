package image

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"io"
	"os"
	"testing"

	"filippo.io/age"

	"github.com/diapause/diapause/objectstore/dir"
)

// benchSize is what each benchmark writes or reads, in bytes.
const benchSize = 256 << 20

// halfRandom is content like a process's memory: half of each page is random, the
// other repeats a little record, and every page is another one.
func halfRandom(size int) []byte {
	data := make([]byte, size)
	for off := 0; off < size; off += PageSize {
		page := data[off : off+PageSize]
		rand.Read(page[:PageSize/2])
		for i := PageSize / 2; i < PageSize; i += 16 {
			copy(page[i:], []byte{byte(i), byte(i >> 8), 0, 0, 0x7f, 0x55, 0, 0, page[i/64], 0, 0, 0, 1, 0, 0, 0})
		}
	}
	return data
}

// benchFixture keeps its objects in memory where there is such a file system, so
// that the disk isn't what is measured.
func benchFixture(b *testing.B) (*dir.Store, WriteOptions, ReadOptions) {
	root := "/dev/shm"
	if _, err := os.Stat(root); err != nil {
		root = ""
	}
	root, err := os.MkdirTemp(root, "image-bench-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(root) })
	store, err := dir.Open(root)
	if err != nil {
		b.Fatal(err)
	}
	id, err := age.GenerateX25519Identity()
	if err != nil {
		b.Fatal(err)
	}
	public, signer, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	w := WriteOptions{Tenant: "t", Session: "s", UID: "u", Lineage: "l", Signer: signer, SignerName: "h", Recipients: []age.Recipient{id.Recipient()}}
	return store, w, ReadOptions{Identities: []age.Identity{id}, Trusted: func(string, string) []ed25519.PublicKey { return []ed25519.PublicKey{public} }}
}

func benchWrite(b *testing.B, store *dir.Store, o WriteOptions, data []byte) (*Writer, Head, Stats) {
	w, err := Create(b.Context(), store, o)
	if err != nil {
		b.Fatal(err)
	}
	if err := w.Add(Entry{Name: "criu/pages-1.img", Type: TypeFile, Size: int64(len(data))}, bytes.NewReader(data)); err != nil {
		b.Fatal(err)
	}
	head, _, stats, err := w.Commit(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return w, head, stats
}

func BenchmarkWrite(b *testing.B) {
	store, o, _ := benchFixture(b)
	data := halfRandom(benchSize)
	b.SetBytes(benchSize)
	var last Stats
	for b.Loop() {
		o.Seq++
		_, head, stats := benchWrite(b, store, o, data)
		last = stats
		b.StopTimer()
		if err := DeleteLineage(b.Context(), store, o.Tenant, o.Lineage); err != nil {
			b.Fatal(err, head)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(last.LogicalBytes)/float64(last.StoredBytes), "ratio")
	b.ReportMetric(last.Compress.Seconds(), "compress-s")
	b.ReportMetric(last.Encrypt.Seconds(), "encrypt-s")
	b.ReportMetric(last.Store.Seconds(), "store-s")
}

// BenchmarkWriteMatched writes the same content once more: all of it is matched.
func BenchmarkWriteMatched(b *testing.B) {
	store, o, _ := benchFixture(b)
	data := halfRandom(benchSize)
	w, head, _ := benchWrite(b, store, o, data)
	b.SetBytes(benchSize)
	for b.Loop() {
		o.Seq++
		o.Parent, o.Base = &head, w.Base()
		w, head, _ = benchWrite(b, store, o, data)
	}
}

func BenchmarkRead(b *testing.B) {
	store, o, ro := benchFixture(b)
	_, head, _ := benchWrite(b, store, o, halfRandom(benchSize))
	b.SetBytes(benchSize)
	for b.Loop() {
		r, err := Open(b.Context(), store, head, ro)
		if err != nil {
			b.Fatal(err)
		}
		for _, e := range r.Entries() {
			rc, err := r.Open(e.Name)
			if err != nil {
				b.Fatal(err)
			}
			if n, err := io.Copy(io.Discard, rc); n != e.Size || err != nil {
				b.Fatal(n, err)
			}
			rc.Close()
		}
		r.Close()
	}
}

// BenchmarkFirstPage opens an image and reads one page of it.
func BenchmarkFirstPage(b *testing.B) {
	store, o, ro := benchFixture(b)
	_, head, _ := benchWrite(b, store, o, halfRandom(benchSize))
	page := make([]byte, PageSize)
	for b.Loop() {
		r, err := Open(b.Context(), store, head, ro)
		if err != nil {
			b.Fatal(err)
		}
		at, size, err := r.ReaderAt("criu/pages-1.img")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := at.ReadAt(page, size/2); err != nil {
			b.Fatal(err)
		}
		r.Close()
	}
}
