package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/e2e/million"
)

// Fleet is what a fleet is worked out from.
type Fleet struct {
	Rates    []Rate
	Messages Messages
	Memory   []million.Memory
}

// FleetSize says how much is measured.
type FleetSize struct {
	Together int           // sessions that are suspended and resumed beside each other
	Over     time.Duration // for so long, and messages are counted
	Idle     int           // sessions on a host whose messages are counted
	Settle   time.Duration // before that
	Records  []int         // sessions in a NATS server
	Servers  []million.Server
	Quiet    time.Duration // that nothing is said to it
}

// MeasureFleet measures what one host does, and what it takes of NATS.
func MeasureFleet(ctx context.Context, size FleetSize) (f Fleet, err error) {
	dir, binary, err := scratch()
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for cores := 1; cores <= runtime.NumCPU(); cores *= 2 {
		r, err := MeasureRate(ctx, dir, binary, cores, size.Together, size.Over)
		if err != nil {
			return f, fmt.Errorf("suspend and resume on %d cores: %w", cores, err)
		}
		f.Rates = append(f.Rates, r)
	}
	if f.Messages, err = MeasureMessages(ctx, dir, binary, size.Idle, size.Settle, size.Over); err != nil {
		return f, fmt.Errorf("count messages: %w", err)
	}
	if f.Memory, err = measureMemory(ctx, dir, size); err != nil {
		return f, fmt.Errorf("fill NATS servers: %w", err)
	}
	return f, nil
}

// measureMemory looks at all servers beside each other: they are only waited for.
func measureMemory(ctx context.Context, dir string, size FleetSize) ([]million.Memory, error) {
	all := make([]million.Memory, len(size.Records)*len(size.Servers))
	g, ctx := errgroup.WithContext(ctx)
	for i, n := range size.Records {
		for j, s := range size.Servers {
			g.Go(func() (err error) {
				all[i*len(size.Servers)+j], err = million.MeasureMemory(ctx, filepath.Join(dir, fmt.Sprintf("nats-%d-%d", n, j)), n, s, size.Quiet)
				return err
			})
		}
	}
	return all, g.Wait()
}
