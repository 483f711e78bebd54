// Command cmd measures what deciding about a million sessions costs, and writes the
// table of it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/diapause/diapause/e2e/compat/local"
	"github.com/diapause/diapause/e2e/million"
	"github.com/diapause/diapause/events/stream"
)

// settle is how long a scheduler is left alone before its memory is looked at.
const settle = 5 * time.Second

func main() {
	if code, ok := million.Child(); ok {
		os.Exit(code)
	}
	n := flag.Int("n", 1000000, "sessions")
	cluster := flag.Int("cluster", -1, "sessions before three servers, 0 for no cluster (default a tenth: each keeps them all, in memory too)")
	load := flag.Duration("load", time.Minute, "how long activity comes in")
	single := flag.Int("single", 4000, "messages a second to one server")
	three := flag.Int("three", 20000, "messages a second to three servers")
	dir := flag.String("dir", "", "for the streams, some GB (default the directory for temporary files)")
	out := flag.String("out", "", "file for the table, besides (e2e/million/RESULTS.md)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	o := million.Options{Sessions: *n, Cluster: *cluster, Load: *load, Single: *single, Three: *three, Dir: *dir, Settle: settle, Log: func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
	}}
	if *cluster < 0 {
		o.Cluster = *n / 10
	}
	err := run(ctx, o, *out)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "million:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o million.Options, out string) error {
	load := local.Load()
	f, err := million.Run(ctx, o)
	if err != nil {
		return err
	}
	text := million.Table(ctx, f, load, stream.Partitions)
	fmt.Printf("%s", text)
	if out == "" {
		return nil
	}
	if err := os.WriteFile(out, text, 0o644); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	fmt.Fprintln(os.Stderr, "written:", out)
	return nil
}
