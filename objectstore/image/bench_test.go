package image

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/objectstore/dir"
	"github.com/diapause/diapause/schemas"
)

// benchSize is what each benchmark writes or reads, in bytes.
const benchSize = 256 << 20

// memory is content like a process's: half of the pages are text of the kind that
// programs hold, a quarter numbers that resemble pointers, a quarter random, and no
// page is like another. It is the mix that the end-to-end benchmark holds.
func memory(size int) []byte {
	data := make([]byte, size)
	for i := range size / PageSize {
		fillPage(data[i*PageSize:(i+1)*PageSize], i, 0)
	}
	return data
}

var benchWords = []string{"session", "request", "value", "/usr/lib/python3/dist-packages/", "self.", "None", "\"id\": ", "error: ", "true", "2026-", "user-", "GET /api/v1/"}

// fillPage writes one page; times makes it another one.
func fillPage(b []byte, i int, times uint64) {
	r := rand.New(rand.NewPCG(uint64(i), times))
	for at := 0; at < len(b); {
		switch i % 4 {
		case 0, 1:
			at += copy(b[at:], benchWords[r.IntN(len(benchWords))])
			at += copy(b[at:], strconv.Itoa(r.IntN(1e6)))
		case 2:
			binary.LittleEndian.PutUint64(b[at:], 0x7f3a_0000_0000+uint64(r.IntN(1<<20))*16)
			at += 8
		default:
			binary.LittleEndian.PutUint64(b[at:], r.Uint64())
			at += 8
		}
	}
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
	public, signer, err := ed25519.GenerateKey(nil)
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

// cpuSeconds is the processor time that this process has taken.
func cpuSeconds(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

func BenchmarkWrite(b *testing.B)      { benchmarkFirst(b, false) }
func BenchmarkWriteDense(b *testing.B) { benchmarkFirst(b, true) }

// benchmarkFirst writes the first image of a session.
func benchmarkFirst(b *testing.B, dense bool) {
	store, o, _ := benchFixture(b)
	o.Dense = dense
	data := memory(benchSize)
	b.SetBytes(benchSize)
	var last Stats
	began := cpuSeconds(b)
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
	b.ReportMetric((cpuSeconds(b)-began)/float64(b.N), "cpu-s/op")
	b.ReportMetric(last.Compress.Seconds(), "compress-s")
	b.ReportMetric(last.Encrypt.Seconds(), "encrypt-s")
	b.ReportMetric(last.Store.Seconds(), "store-s")
}

// BenchmarkWriteMatched writes the same content once more: all of it is matched.
func BenchmarkWriteMatched(b *testing.B) {
	store, o, _ := benchFixture(b)
	data := memory(benchSize)
	w, head, _ := benchWrite(b, store, o, data)
	b.SetBytes(benchSize)
	began := cpuSeconds(b)
	for b.Loop() {
		o.Seq++
		o.Parent, o.Base = &head, w.Base()
		w, head, _ = benchWrite(b, store, o, data)
	}
	b.ReportMetric((cpuSeconds(b)-began)/float64(b.N), "cpu-s/op")
}

func BenchmarkRead(b *testing.B) {
	store, o, ro := benchFixture(b)
	_, head, _ := benchWrite(b, store, o, memory(benchSize))
	b.SetBytes(benchSize)
	began := cpuSeconds(b)
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
	b.ReportMetric((cpuSeconds(b)-began)/float64(b.N), "cpu-s/op")
}

// growing is a session of any size: each of its pages is another one.
type growing struct {
	block, rest []byte
	count       uint64
	left        int64
}

func (g *growing) Read(b []byte) (int, error) {
	if g.left <= 0 {
		return 0, io.EOF
	}
	if len(g.rest) == 0 {
		for at := 0; at < len(g.block); at += PageSize {
			g.count++
			binary.LittleEndian.PutUint64(g.block[at+100:], g.count)
		}
		g.rest = g.block
	}
	n := copy(b, g.rest)
	g.rest, g.left = g.rest[n:], g.left-int64(n)
	return n, nil
}

// sink takes objects and keeps none.
type sink struct{ *dir.Store }

func (sink) Put(_ context.Context, _ string, r io.Reader, _ int64) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

// BenchmarkWriteLarge writes 4 GB of new pages. The memory that it reports is the
// most that this process ever had: run it alone.
func BenchmarkWriteLarge(b *testing.B) {
	store, o, _ := benchFixture(b)
	const size = 4 << 30
	b.SetBytes(size)
	var h schemas.ImageHeader
	for b.Loop() {
		w, err := Create(b.Context(), sink{store}, o)
		if err != nil {
			b.Fatal(err)
		}
		if err := w.Add(Entry{Name: "criu/pages-1.img", Type: TypeFile, Size: -1}, &growing{block: memory(1 << 20), left: size}); err != nil {
			b.Fatal(err)
		}
		if _, h, _, err = w.Commit(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(u.Maxrss)/1024, "peak-MB")
	b.ReportMetric(float64(h.Index.Size), "index-B")
}

// BenchmarkFirstPage opens an image and reads one page of it.
func BenchmarkFirstPage(b *testing.B) {
	store, o, ro := benchFixture(b)
	_, head, _ := benchWrite(b, store, o, memory(benchSize))
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
