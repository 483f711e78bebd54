package criu

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/objectstore/dir"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// BenchmarkWays suspends and resumes a session of a given size, to and from an
// image on the disk: what README.md tells of both ways. It is meant for one run
// a case:
//
//	go test ./criu -run '^$' -bench Ways -benchtime 1x -timeout 20m
//
// "extra" is by how much the memory in use on the machine grew at the worst moment,
// besides the session itself: nothing else should go on on it.
func BenchmarkWays(b *testing.B) {
	for _, mib := range []int{64, 512, 2048} {
		for _, way := range []driver.Way{driver.WayMemory, driver.WayBuffered, driver.WayStream} {
			b.Run(fmt.Sprintf("%dMiB/%s", mib, way), func(b *testing.B) { benchWay(b, mib, way) })
		}
	}
}

func benchWay(b *testing.B, mib int, way driver.Way) {
	data := b.TempDir()
	d, err := New(Options{Data: filepath.Join(data, "d"), Instance: fmt.Sprintf("bench-%d", os.Getpid()), Way: way})
	if err != nil {
		b.Fatalf("%v (this runs sessions: it needs root and criu)", err)
	}
	store, err := dir.Open(filepath.Join(data, "objects"))
	if err != nil {
		b.Fatal(err)
	}
	write, read := benchKeys(b)
	epoch := uint64(0)
	next := func() driver.Fence { epoch++; return drivertest.Fence("s", epoch) }
	defer func() {
		if err := errors.Join(d.Stop(context.Background(), next()), d.Close()); err != nil {
			b.Error(err)
		}
	}()
	spec := schemas.Spec{Command: []string{"/usr/bin/perl", "-e", fmt.Sprintf(`my $b = ""; open(my $r, "<", "/dev/urandom") or die;
		for (1..%d) { read($r, my $c, 1 << 19); $b .= unpack("H*", $c); } open(my $f, ">", "/ready") or die; close $f; sleep 1000000;`, mib)}}
	i, err := d.Start(b.Context(), next(), spec, drivertest.Begin)
	if err != nil {
		b.Fatal(err)
	}
	awaitFile(b, fmt.Sprintf("/proc/%d/root/ready", i.PID))
	for b.Loop() {
		write.Seq++
		w, err := image.Create(b.Context(), store, write)
		if err != nil {
			b.Fatal(err)
		}
		peak := watchMemory()
		c, err := d.Capture(b.Context(), next(), w)
		if err != nil {
			b.Fatal(err)
		}
		head, _, _, err := w.Commit(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(c.CaptureTook.Milliseconds()), "dump-ms")
		b.ReportMetric(float64(time.Since(c.Frozen).Milliseconds()), "frozen-to-durable-ms")
		b.ReportMetric(float64(c.Held>>20), "held-MiB")
		b.ReportMetric(float64(peak()>>20), "capture-extra-MiB")
		if err := d.Stop(b.Context(), next()); err != nil {
			b.Fatal(err)
		}
		benchRestore(b, d, next(), spec, store, head, read, mib)
	}
}

func benchRestore(b *testing.B, d *Driver, f driver.Fence, spec schemas.Spec, store *dir.Store, head image.Head, o image.ReadOptions, mib int) {
	peak := watchMemory()
	began := time.Now()
	img, err := image.Open(b.Context(), store, head, o)
	if err != nil {
		b.Fatal(err)
	}
	defer img.Close()
	laps := driver.NewLaps(began)
	if _, err := d.Restore(driver.WithLaps(b.Context(), laps), f, spec, img, schemas.BootResume, drivertest.Begin); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(time.Since(began).Milliseconds()), "restore-ms")
	for _, p := range laps.Parts() {
		b.ReportMetric(float64(p.Took.Milliseconds()), p.Name+"-ms")
	}
	b.ReportMetric(float64(peak()>>20)-float64(mib), "restore-extra-MiB")
}

func benchKeys(b testing.TB) (image.WriteOptions, image.ReadOptions) {
	b.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		b.Fatal(err)
	}
	public, signer, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	return image.WriteOptions{Tenant: "t", Session: "s", UID: "s", Lineage: "l", Signer: signer, SignerName: "h", Recipients: []age.Recipient{id.Recipient()}},
		image.ReadOptions{Identities: []age.Identity{id}, Trusted: func(string, string) []ed25519.PublicKey { return []ed25519.PublicKey{public} }}
}

func awaitFile(b *testing.B, path string) {
	b.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		_, err := os.Stat(path)
		if err == nil {
			return
		}
		if !errors.Is(err, fs.ErrNotExist) || time.Now().After(deadline) {
			b.Fatalf("the session isn't ready: %v", err)
		}
	}
}

// watchMemory looks at what the machine's programs and memory files take until
// its result is called, which gives the bytes by which that grew at most.
func watchMemory() func() int64 {
	before := inUse()
	highest := before
	stop := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		for {
			highest = max(highest, inUse())
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	return func() int64 {
		close(stop)
		done.Wait()
		return highest - before
	}
}

// inUse is the sum of all anonymous and shared memory, in bytes: no cache.
func inUse() int64 {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	var sum int64
	for line := range strings.Lines(string(b)) {
		name, rest, _ := strings.Cut(line, ":")
		if name == "AnonPages" || name == "Shmem" {
			n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			sum += n << 10
		}
	}
	return sum
}
