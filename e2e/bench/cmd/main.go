// Command cmd runs the benchmarks, prints lines that benchstat reads, and writes
// the table of them.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/diapause/diapause/e2e/bench"
	"github.com/diapause/diapause/e2e/compat/local"
	"github.com/diapause/diapause/e2e/million"
)

func main() {
	if code, ok := million.Child(); ok {
		os.Exit(code)
	}
	sizes := flag.String("mb", "64,512,2048", "megabytes of memory to measure with")
	rounds := flag.Int("rounds", 3, "rounds for each size")
	out := flag.String("out", "", "directory for the tables (default e2e/bench)")
	only := flag.String("only", "", "stages, sessions, comparison, losses, forward, wake or fleet: measure nothing else")
	wakes := flag.Int("wakes", 10_000, "first requests to small sessions that sleep, and a hundredth of that to each larger one")
	loads := flag.String("compare", "400,2048", "megabytes of memory to compare with")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, settings{sizes: *sizes, loads: *loads, rounds: *rounds, wakes: *wakes, out: *out, only: *only})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// settings are what the command line says.
type settings struct {
	sizes, loads string
	rounds       int
	wakes        int
	out, only    string
}

func run(ctx context.Context, s settings) error {
	if s.rounds < 1 {
		return fmt.Errorf("-rounds %d: want 1 or more", s.rounds)
	}
	if s.out == "" {
		root, err := local.Root()
		if err != nil {
			return err
		}
		s.out = filepath.Join(root, "e2e", "bench")
	}
	fmt.Printf("goos: %s\ngoarch: %s\npkg: github.com/diapause/diapause/e2e/bench\n", runtime.GOOS, runtime.GOARCH)
	for _, part := range []struct {
		name string
		run  func(context.Context, settings) error
	}{{"stages", stages}, {"sessions", sessions}, {"comparison", compare}, {"losses", losses}, {"forward", forward}, {"wake", wake}, {"fleet", fleet}} {
		if s.only != "" && s.only != part.name {
			continue
		}
		if err := part.run(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func sessions(ctx context.Context, s settings) error {
	load := local.Load()
	costs, err := bench.MeasureSessions(ctx, bench.Size{Small: 15, Idle: 100, Together: 60, Forks: 100, ForksMB: 1000, Rehearse: 5, Settle: 10 * time.Second, Over: 30 * time.Second})
	if err != nil {
		return err
	}
	return write(filepath.Join(s.out, "SESSIONS.md"), costs.Table(ctx, load))
}

func losses(ctx context.Context, s settings) error {
	load := local.Load()
	all, err := bench.MeasureLosses(ctx, 10*time.Second, 20)
	if err != nil {
		return err
	}
	return write(filepath.Join(s.out, "LOSSES.md"), all.Table(ctx, load))
}

func forward(ctx context.Context, s settings) error {
	load := local.Load()
	all, err := bench.MeasureForward(ctx, 256, s.rounds)
	if err != nil {
		return err
	}
	return write(filepath.Join(s.out, "FORWARD.md"), all.Table(ctx, load))
}

// The first requests of wake: so many sessions of a small program, and requests to one that runs.
const (
	wakeSessions = 20
	wakeWarm     = 2000
)

func wake(ctx context.Context, s settings) error {
	sizes, err := megabytes("-mb", s.sizes)
	if err != nil {
		return err
	}
	loads := []bench.WakeLoad{{Sessions: min(wakeSessions, s.wakes), Requests: s.wakes}}
	for _, mb := range sizes {
		loads = append(loads, bench.WakeLoad{MB: mb, Sessions: 1, Requests: max(1, s.wakes/100)})
	}
	load := local.Load()
	all, err := bench.MeasureWakes(ctx, loads, wakeWarm)
	if err != nil {
		return err
	}
	return write(filepath.Join(s.out, "WAKE.md"), all.Table(ctx, load))
}

// quiet is how long nothing is said to a NATS server before its memory is looked at again.
const quiet = 5 * time.Minute

func fleet(ctx context.Context, s settings) error {
	load := local.Load()
	f, err := bench.MeasureFleet(ctx, bench.FleetSize{
		Together: 8, Over: time.Minute, Idle: 50, Settle: 15 * time.Second, Records: []int{10000, 50000}, Servers: []million.Server{{GC: 100}, {GC: 25}, {GC: 100, Trims: true}}, Quiet: quiet,
	})
	if err != nil {
		return err
	}
	return write(filepath.Join(s.out, "FLEET.md"), f.Table(ctx, load, quiet))
}

func stages(ctx context.Context, s settings) error {
	sizes, err := megabytes("-mb", s.sizes)
	if err != nil {
		return err
	}
	load := local.Load()
	all, err := bench.Run(ctx, sizes, s.rounds, func(m bench.Measurement) error { return m.Line(os.Stdout) })
	if err != nil {
		return err
	}
	return write(filepath.Join(s.out, "RESULTS.md"), bench.Table(ctx, all, s.rounds, load))
}

func compare(ctx context.Context, s settings) error {
	sizes, err := megabytes("-compare", s.loads)
	if err != nil {
		return err
	}
	var loads []bench.Load
	for _, mb := range sizes {
		loads = append(loads, bench.Load{MB: mb, Changes: []bench.Change{{Name: "1%", Nth: 99}, {Name: "10%", Nth: 10}}})
	}
	var all []bench.Cost
	var raw bytes.Buffer
	load := local.Load()
	err = bench.Compare(ctx, loads, s.rounds, func(c bench.Cost) {
		all = append(all, c)
		_ = c.Line(io.MultiWriter(os.Stdout, &raw)) // a closed output is no reason to stop
	})
	if err != nil {
		return err
	}
	if err := write(filepath.Join(s.out, "comparison.txt"), raw.Bytes()); err != nil {
		return err
	}
	return write(filepath.Join(s.out, "COMPARISON.md"), bench.Compared(ctx, all, s.rounds, load))
}

func megabytes(flag, text string) (all []int, err error) {
	for _, field := range strings.Split(text, ",") {
		mb, err := strconv.Atoi(field)
		if err != nil || mb < 1 {
			return nil, fmt.Errorf("%s %q: want numbers with commas between", flag, text)
		}
		all = append(all, mb)
	}
	return all, nil
}

func write(file string, text []byte) error {
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	fmt.Fprintln(os.Stderr, "written:", file)
	return nil
}
