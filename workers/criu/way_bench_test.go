package criu

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

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
	spec := schemas.Spec{Command: []string{"/usr/bin/perl", "-e", fmt.Sprintf(`my $b = ""; open(my $r, "<", "/dev/urandom") or die;
		for (1..%d) { read($r, my $c, 1 << 19); $b .= unpack("H*", $c); } open(my $f, ">", "/ready") or die; close $f; sleep 1000000;`, mib)}}
	s := bench(b, way, spec)
	for b.Loop() {
		peak := watchMemory()
		_, c, head := s.suspend(b, schemas.RehearseNever)
		b.ReportMetric(float64(c.CaptureTook.Milliseconds()), "dump-ms")
		b.ReportMetric(float64(time.Since(c.Frozen).Milliseconds()), "frozen-to-durable-ms")
		b.ReportMetric(float64(c.Held>>20), "held-MiB")
		b.ReportMetric(float64(peak()>>20), "capture-extra-MiB")
		if err := s.d.Stop(b.Context(), s.next()); err != nil {
			b.Fatal(err)
		}
		benchRestore(b, s, spec, head, mib)
	}
}

func benchRestore(b *testing.B, s *benched, spec schemas.Spec, head image.Head, mib int) {
	peak := watchMemory()
	began := time.Now()
	img, err := image.Open(b.Context(), s.store, head, s.read)
	if err != nil {
		b.Fatal(err)
	}
	defer img.Close()
	laps := driver.NewLaps(began)
	if _, err := s.d.Restore(driver.WithLaps(b.Context(), laps), s.next(), spec, img, schemas.BootResume, drivertest.Begin); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(time.Since(began).Milliseconds()), "restore-ms")
	for _, p := range laps.Parts() {
		b.ReportMetric(float64(p.Took.Milliseconds()), p.Name+"-ms")
	}
	b.ReportMetric(float64(peak()>>20)-float64(mib), "restore-extra-MiB")
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
