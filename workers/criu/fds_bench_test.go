package criu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/diapause/diapause/objectstore/dir"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// BenchmarkDescriptors suspends and resumes a session of 60 processes that share 40,000
// descriptors: files, pipes, sockets and counters. It is meant for one run:
//
//	go test ./criu -run '^$' -bench Descriptors -benchtime 1x
func BenchmarkDescriptors(b *testing.B) {
	const processes, each = 60, 660
	data := b.TempDir()
	d, err := New(Options{Data: filepath.Join(data, "d"), Instance: fmt.Sprintf("bench-%d", os.Getpid())})
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
	spec := schemas.Spec{Command: []string{"/usr/bin/python3", "-c", fmt.Sprintf(`
import os, socket, time
keep = []
for i in range(%d // 6):
    f = open("/tmp/f%%d" %% i, "w"); keep.append(f)
    keep += list(os.pipe()) + list(socket.socketpair())
    keep.append(os.eventfd(0) if hasattr(os, "eventfd") else os.dup(f.fileno()))
for _ in range(%d - 1):
    if os.fork() == 0:
        time.sleep(1000000)
open("/ready", "w").close()
time.sleep(1000000)
`, each, processes)}}
	i, err := d.Start(b.Context(), next(), spec, drivertest.Begin)
	if err != nil {
		b.Fatal(err)
	}
	awaitFile(b, fmt.Sprintf("/proc/%d/root/ready", i.PID))
	for b.Loop() {
		write.Seq++
		laps := driver.NewLaps(time.Now())
		ctx := driver.WithLaps(b.Context(), laps)
		w, err := image.Create(ctx, store, write)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := d.Capture(ctx, next(), w); err != nil {
			b.Fatal(err)
		}
		head, _, _, err := w.Commit(ctx)
		if err != nil {
			b.Fatal(err)
		}
		laps.Mark("commit")
		reportLaps(b, "suspend", laps)
		if err := d.Stop(b.Context(), next()); err != nil {
			b.Fatal(err)
		}
		laps = driver.NewLaps(time.Now())
		ctx = driver.WithLaps(b.Context(), laps)
		img, err := image.Open(ctx, store, head, read)
		if err != nil {
			b.Fatal(err)
		}
		laps.Mark("open")
		if _, err := d.Restore(ctx, next(), spec, img, schemas.BootResume, drivertest.Begin); err != nil {
			b.Fatal(err)
		}
		laps.Mark("start")
		reportLaps(b, "resume", laps)
		img.Close()
	}
}

func reportLaps(b *testing.B, what string, l *driver.Laps) {
	for _, p := range l.Parts() {
		b.ReportMetric(float64(p.Took.Microseconds())/1000, what+"-"+p.Name+"-ms")
	}
	b.ReportMetric(float64(l.Total().Microseconds())/1000, what+"-total-ms")
}
