package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/diapause/diapause/e2e/compat/local"
	"golang.org/x/sync/errgroup"
)

// Rate is how many suspends, each with its resume, a host does.
type Rate struct {
	Cores    int // that the daemon, its shims and their criu compute on
	Sessions int // that are suspended and resumed beside each other
	Over     time.Duration
	Rounds   int     // a suspend and a resume each
	Busy     float64 // of these cores: 1 is all the time
}

// Minute is the rounds of a minute.
func (r Rate) Minute() float64 { return float64(r.Rounds) / r.Over.Minutes() }

// Each is what a round computes, on all of these cores together.
func (r Rate) Each() time.Duration {
	return time.Duration(r.Busy * float64(r.Cores) * float64(r.Over) / float64(max(r.Rounds, 1)))
}

// pinned gives a program that runs the binary, as `up` on the first cores alone.
func pinned(dir, binary string, cores int) (string, error) {
	script := fmt.Sprintf("#!/bin/sh\n[ \"$1\" != up ] || exec taskset -c 0-%d %s \"$@\"\nexec %s \"$@\"\n", cores-1, binary, binary)
	file := filepath.Join(dir, fmt.Sprintf("on-%d", cores))
	if err := os.WriteFile(file, []byte(script), 0o755); err != nil {
		return "", fmt.Errorf("write a script: %w", err)
	}
	return file, nil
}

// MeasureRate suspends and resumes n sessions again and again, each by commands of its own.
func MeasureRate(ctx context.Context, dir, binary string, cores, n int, over time.Duration) (r Rate, err error) {
	r = Rate{Cores: cores, Sessions: n}
	program, err := pinned(dir, binary, cores)
	if err != nil {
		return r, err
	}
	d, err := local.Start(ctx, program, filepath.Join(dir, fmt.Sprint("rate-", cores)))
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, d.Stop(context.WithoutCancel(ctx))) }()
	all, err := runMany(ctx, d, n, "rate", without, "/bin/sleep", "infinity")
	if err != nil {
		return r, err
	}
	before, err := idleOf(cores)
	if err != nil {
		return r, err
	}
	began := time.Now()
	var rounds atomic.Int64
	var g errgroup.Group
	for _, s := range all {
		g.Go(func() error {
			for time.Since(began) < over && ctx.Err() == nil {
				if _, err := s.Suspend(ctx); err != nil {
					return err
				}
				if _, err := s.Ensure(ctx); err != nil {
					return err
				}
				rounds.Add(1)
			}
			return ctx.Err()
		})
	}
	err = g.Wait()
	r.Over, r.Rounds = time.Since(began), int(rounds.Load())
	after, idleErr := idleOf(cores)
	r.Busy = 1 - float64(after-before)/float64(r.Over)/float64(cores)
	return r, errors.Join(err, idleErr)
}

// idleOf is for how long the first cores had nothing to do or waited for a disk, together.
func idleOf(cores int) (sum time.Duration, err error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("read the CPU time: %w", err)
	}
	for core := range cores {
		_, rest, ok := strings.Cut(string(b), fmt.Sprintf("\ncpu%d ", core))
		var user, nice, system, idle, wait int64
		if _, err := fmt.Sscan(rest, &user, &nice, &system, &idle, &wait); !ok || err != nil {
			return 0, fmt.Errorf("read the CPU time of core %d: %w", core, err)
		}
		sum += time.Duration(idle+wait) * tick
	}
	return sum, nil
}
