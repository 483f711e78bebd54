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

// BenchmarkRehearsal captures a session of 100 processes with 1 GB of memory, which then runs
// on, without a rehearsal and with one. "took" is the rehearsal alone; what it costs a suspend is the difference
// of the totals:
//
//	go test ./criu -run '^$' -bench Rehearsal -benchtime 5x
func BenchmarkRehearsal(b *testing.B) {
	const processes, each = 100, 10 << 20
	data := b.TempDir()
	d, err := New(Options{Data: filepath.Join(data, "d"), Instance: fmt.Sprintf("bench-%d", os.Getpid())})
	if err != nil {
		b.Fatalf("%v (this runs sessions: it needs root and criu)", err)
	}
	store, err := dir.Open(filepath.Join(data, "objects"))
	if err != nil {
		b.Fatal(err)
	}
	write, _ := benchKeys(b)
	epoch := uint64(0)
	next := func() driver.Fence { epoch++; return drivertest.Fence("s", epoch) }
	defer func() {
		if err := errors.Join(d.Stop(context.Background(), next()), d.Close()); err != nil {
			b.Error(err)
		}
	}()
	i, err := d.Start(b.Context(), next(), schemas.Spec{Command: []string{"/usr/bin/python3", "-c", fmt.Sprintf(`
import os, time
for _ in range(%d - 1):
    if os.fork() == 0:
        break
m = bytearray(os.urandom(4096) * (%d // 4096))
open("/ready-%%d" %% os.getpid(), "w").close()
time.sleep(1000000)
`, processes, each)}}, drivertest.Begin)
	if err != nil {
		b.Fatal(err)
	}
	root := fmt.Sprintf("/proc/%d/root", i.PID)
	for ready := 0; ready < processes; {
		found, err := filepath.Glob(root + "/ready-*")
		if err != nil {
			b.Fatal(err)
		}
		ready = len(found)
	}
	for _, which := range []schemas.Rehearse{schemas.RehearseNever, schemas.RehearseAlways} {
		b.Run(string(which), func(b *testing.B) {
			var total, took, waited time.Duration
			for b.Loop() {
				write.Seq++
				laps := driver.NewLaps(time.Now())
				ctx := driver.WithLaps(b.Context(), laps)
				w, err := image.Create(ctx, store, write)
				if err != nil {
					b.Fatal(err)
				}
				c, err := d.CaptureRehearsed(ctx, next(), w, which)
				if err != nil {
					b.Fatal(err)
				}
				if _, _, _, err := w.Commit(ctx); err != nil {
					b.Fatal(err)
				}
				laps.Mark("commit")
				took += c.RehearsalTook
				total += laps.Total()
				for _, p := range laps.Parts() {
					if p.Name == "rehearsal_wait" {
						waited += p.Took
					}
				}
				if err := d.Thaw(b.Context(), next()); err != nil {
					b.Fatal(err)
				}
			}
			for name, t := range map[string]time.Duration{"suspend": total, "took": took, "wait": waited} {
				b.ReportMetric(float64(t.Microseconds())/1000/float64(b.N), name+"-ms")
			}
		})
	}
}
