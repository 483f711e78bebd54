package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/diapause/diapause/e2e/compat/local"
	"golang.org/x/sync/errgroup"
)

// Idle is what sessions cost that do nothing.
type Idle struct {
	Sessions    int
	Over        time.Duration // for so long they were watched
	UpCPU       float64       // of one core, 1 is all of it
	ShimsCPU    float64       // of one core, together
	UpMemory    int64         // bytes, without what is shared
	ShimsMemory int64         // bytes, of the median shim
	EmptyCPU    float64       // of up, without sessions
	EmptyMemory int64
}

// starting is how many sessions are started beside each other.
const starting = 4

// without are the flags of the cheapest session.
var without = []string{"--network", "none"}

// runMany starts sessions of one command.
func runMany(ctx context.Context, d *local.Daemon, n int, name string, flags []string, command ...string) ([]*local.Session, error) {
	all := make([]*local.Session, n)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(starting)
	for i := range n {
		g.Go(func() error {
			s, err := d.Run(ctx, fmt.Sprintf("%s-%d", name, i), flags, command...)
			all[i] = s
			return err
		})
	}
	return all, g.Wait()
}

func removeAll(ctx context.Context, all []*local.Session) error {
	var g errgroup.Group
	g.SetLimit(starting)
	for _, s := range all {
		if s != nil {
			g.Go(func() error { return s.Remove(context.WithoutCancel(ctx)) })
		}
	}
	return g.Wait()
}

// MeasureIdle watches a daemon without sessions, then with n that sleep and have neither network nor terminal.
func MeasureIdle(ctx context.Context, d *local.Daemon, n int, settle, over time.Duration) (Idle, error) {
	return measureIdle(ctx, d, n, settle, over, func() ([]*local.Session, error) {
		return runMany(ctx, d, n, "idle", without, "/bin/sleep", "infinity")
	})
}

// MeasureIdleShells is MeasureIdle of shells on a terminal, with the network that sessions have by
// default, each of which was suspended and resumed once.
func MeasureIdleShells(ctx context.Context, d *local.Daemon, n int, settle, over time.Duration) (Idle, error) {
	return measureIdle(ctx, d, n, settle, over, func() ([]*local.Session, error) {
		all, err := runMany(ctx, d, n, "shell", []string{"--tty"}, "/bin/bash", "--norc", "--noprofile")
		if err != nil {
			return all, err
		}
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(starting)
		for _, s := range all {
			g.Go(func() error {
				if _, err := s.Suspend(ctx); err != nil {
					return err
				}
				_, err := s.Ensure(ctx)
				return err
			})
		}
		return all, g.Wait()
	})
}

func measureIdle(ctx context.Context, d *local.Daemon, n int, settle, over time.Duration, run func() ([]*local.Session, error)) (i Idle, err error) {
	i = Idle{Sessions: n, Over: over}
	empty, err := watch(ctx, settle, over, d.Pid())
	if err != nil {
		return i, err
	}
	i.EmptyCPU, i.EmptyMemory = empty[0].cpu, empty[0].memory
	all, err := run()
	defer func() { err = errors.Join(err, removeAll(ctx, all)) }()
	if err != nil {
		return i, err
	}
	pids := []int{d.Pid()}
	for _, s := range all {
		pid, err := s.Shim(ctx)
		if err != nil {
			return i, err
		}
		pids = append(pids, pid)
	}
	watched, err := watch(ctx, settle, over, pids...)
	if err != nil {
		return i, err
	}
	i.UpCPU, i.UpMemory = watched[0].cpu, watched[0].memory
	var memory []int64
	for _, w := range watched[1:] {
		i.ShimsCPU += w.cpu
		memory = append(memory, w.memory)
	}
	slices.Sort(memory)
	i.ShimsMemory = memory[len(memory)/2]
	return i, nil
}

type usage struct {
	cpu    float64
	memory int64
}

// watch gives what processes use of a core over a time, and hold in the end, after
// they had some time to settle.
func watch(ctx context.Context, settle, over time.Duration, pids ...int) ([]usage, error) {
	if err := pause(ctx, settle); err != nil {
		return nil, err
	}
	begin := time.Now()
	before, err := holdings(pids)
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, over); err != nil {
		return nil, err
	}
	after, err := holdings(pids)
	if err != nil {
		return nil, err
	}
	took := time.Since(begin)
	var all []usage
	for i := range pids {
		all = append(all, usage{float64(after[i].CPU-before[i].CPU) / float64(took), after[i].Memory})
	}
	return all, nil
}

func holdings(pids []int) ([]local.Holding, error) {
	var all []local.Holding
	for _, pid := range pids {
		h, err := local.HoldingOf(pid)
		if err != nil {
			return nil, err
		}
		all = append(all, h)
	}
	return all, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Together is what it takes to suspend and to wake many sessions at once.
type Together struct {
	Sessions       int
	Suspend, Wake  Spread
	UpPeak, UpRest int64 // bytes: the most that up held, and what it holds a while after
}

// Spread is when the middle one and the last one were done, from the common begin.
type Spread struct{ Median, Last time.Duration }

// MeasureTogether suspends n sessions of some 3 MB at once, and wakes them at once.
func MeasureTogether(ctx context.Context, d *local.Daemon, n int, settle time.Duration) (m Together, err error) {
	m.Sessions = n
	all, err := runMany(ctx, d, n, "together", without, "/bin/bash", "-c", "v=$(head -c 1500000 /dev/urandom | base64 -w 0); sleep infinity; echo $v")
	defer func() { err = errors.Join(err, removeAll(ctx, all)) }()
	if err != nil {
		return m, err
	}
	if err := pause(ctx, settle); err != nil {
		return m, err
	}
	if err := local.ClearPeak(d.Pid()); err != nil {
		return m, err
	}
	suspend := func(ctx context.Context, s *local.Session) error { _, err := s.Suspend(ctx); return err }
	wake := func(ctx context.Context, s *local.Session) error { _, err := s.Ensure(ctx); return err }
	if m.Suspend, err = atOnce(ctx, all, suspend); err != nil {
		return m, err
	}
	if m.Wake, err = atOnce(ctx, all, wake); err != nil {
		return m, err
	}
	if m.UpPeak, err = local.Peak(d.Pid()); err != nil {
		return m, err
	}
	if err := pause(ctx, settle); err != nil {
		return m, err
	}
	h, err := local.HoldingOf(d.Pid())
	m.UpRest = h.Memory
	return m, err
}

func atOnce(ctx context.Context, all []*local.Session, do func(context.Context, *local.Session) error) (Spread, error) {
	took := make([]time.Duration, len(all))
	begin := time.Now()
	var g errgroup.Group
	for i, s := range all {
		g.Go(func() error {
			err := do(ctx, s)
			took[i] = time.Since(begin)
			return err
		})
	}
	err := g.Wait()
	slices.Sort(took)
	return Spread{took[len(took)/2], took[len(took)-1]}, err
}
