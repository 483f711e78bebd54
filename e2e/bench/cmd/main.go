// Command cmd runs the benchmarks, prints lines that benchstat reads, and writes
// the table of them.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/diapause/diapause/e2e/bench"
	"github.com/diapause/diapause/e2e/compat/local"
)

func main() {
	sizes := flag.String("mb", "64,512,2048", "megabytes of memory to measure with")
	rounds := flag.Int("rounds", 3, "rounds for each size")
	out := flag.String("out", "", "file for the table (default e2e/bench/RESULTS.md)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *sizes, *rounds, *out)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, sizes string, rounds int, out string) error {
	var megabytes []int
	for _, field := range strings.Split(sizes, ",") {
		mb, err := strconv.Atoi(field)
		if err != nil || mb < 1 {
			return fmt.Errorf("-mb %q: want numbers with commas between", sizes)
		}
		megabytes = append(megabytes, mb)
	}
	if rounds < 1 {
		return fmt.Errorf("-rounds %d: want 1 or more", rounds)
	}
	fmt.Printf("goos: %s\ngoarch: %s\npkg: github.com/diapause/diapause/e2e/bench\n", runtime.GOOS, runtime.GOARCH)
	load := local.Load()
	all, err := bench.Run(ctx, megabytes, rounds, func(m bench.Measurement) error { return m.Line(os.Stdout) })
	if err != nil {
		return err
	}
	if out == "" {
		root, err := local.Root()
		if err != nil {
			return err
		}
		out = filepath.Join(root, "e2e", "bench", "RESULTS.md")
	}
	if err := os.WriteFile(out, bench.Table(ctx, all, rounds, load), 0o644); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	fmt.Fprintln(os.Stderr, "written:", out)
	return nil
}
