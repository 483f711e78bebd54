package criu

import (
	"fmt"
	"testing"
	"time"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// BenchmarkDescriptors suspends and resumes sessions of 60 processes that have 40,000
// descriptors, and of 277 with 172,000: files, pipes, sockets and counters. The larger one is
// rehearsed, as by default. It is meant for one run:
//
//	go test ./criu -run '^$' -bench Descriptors -benchtime 1x
func BenchmarkDescriptors(b *testing.B) {
	for _, of := range []struct {
		processes, each int
		rehearse        schemas.Rehearse
	}{{60, 660, schemas.RehearseNever}, {277, 620, schemas.RehearseAlways}} {
		b.Run(fmt.Sprint(of.processes), func(b *testing.B) { benchDescriptors(b, of.processes, of.each, of.rehearse) })
	}
}

func benchDescriptors(b *testing.B, processes, each int, which schemas.Rehearse) {
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
	s := bench(b, "", spec)
	for b.Loop() {
		laps, c, head := s.suspend(b, which)
		reportLaps(b, "suspend", laps)
		b.ReportMetric(float64(c.RehearsalTook.Milliseconds()), "suspend-of-rehearsal-ms")
		if err := s.d.Stop(b.Context(), s.next()); err != nil {
			b.Fatal(err)
		}
		laps = driver.NewLaps(time.Now())
		ctx := driver.WithLaps(b.Context(), laps)
		img, err := image.Open(ctx, s.store, head, s.read)
		if err != nil {
			b.Fatal(err)
		}
		laps.Mark("open")
		if _, err := s.d.Restore(ctx, s.next(), spec, img, schemas.BootResume, drivertest.Begin); err != nil {
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
