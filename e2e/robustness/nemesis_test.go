package robustness_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/diapause/diapause/e2e/jump"
)

// fault is one thing that goes wrong for a while, drawn from the seed.
type fault struct {
	Kind   string
	Target int
	Other  int
	Pause  time.Duration // before it
	Lasts  time.Duration
}

func (f fault) String() string {
	return fmt.Sprintf("%s %d/%d for %s, after %s", f.Kind, f.Target, f.Other, f.Lasts, f.Pause)
}

// The kinds of faults, and how long each lasts at least and at most, in
// milliseconds. A cluster needs up to nine seconds for a new leader.
var faults = map[string][2]int{
	"stall part":   {50, 3000}, // as if the process were stopped
	"stop part":    {50, 6000}, // SIGSTOP, for longer than a host's lease at times
	"cut part":     {10, 2000},
	"drop part":    {0, 1},
	"crash part":   {0, 1},
	"slow store":   {500, 3000},
	"stop store":   {50, 4000},  // the server is killed
	"slow disk":    {500, 5000}, // of NATS: every write takes long
	"restart node": {0, 1500},
	"step down":    {0, 1},
	"isolate node": {500, 11000}, // from the other nodes; its clients stay
	"stall node":   {500, 11000}, // the same, and no one is told
	"cut pair":     {200, 3000},
}

// always and clustered are what may be drawn, as often as it is named; stopped where parts
// are processes of their own.
var (
	always    = []string{"stall part", "stall part", "cut part", "drop part", "crash part", "crash part", "slow store", "restart node"}
	stopped   = []string{"stop part", "stop part", "stop part", "stop part"}
	slowed    = []string{"slow disk", "slow disk"} // where the machine's instructions are known
	clustered = []string{"step down", "step down", "isolate node", "stall node", "cut pair", "step down", "isolate node"}
)

// longSync is how much longer a slow disk takes for what is synced.
const longSync = 150 * time.Millisecond

// plan draws the faults of a run from its seed.
func plan(r *rand.Rand, of kind, parts, n int) []fault {
	kinds := always
	if of.servers > 1 {
		kinds = append(append([]string{}, always...), clustered...)
	}
	if of.own {
		kinds = append(append([]string{}, always...), stopped...)
	}
	if of.own && jump.Known {
		kinds = append(kinds, slowed...)
	}
	return planOf(r, kinds, of.servers, parts, n)
}

// planOf draws n faults of some kinds.
func planOf(r *rand.Rand, kinds []string, servers, parts, n int) []fault {
	var out []fault
	for range n {
		k := kinds[r.IntN(len(kinds))]
		bounds := faults[k]
		f := fault{Kind: k, Target: r.IntN(servers), Other: r.IntN(servers), Pause: time.Duration(100+r.IntN(1200)) * time.Millisecond,
			Lasts: time.Duration(bounds[0]+r.IntN(bounds[1]-bounds[0])) * time.Millisecond}
		switch k {
		case "stall part", "stop part", "cut part", "drop part", "crash part":
			f.Target = r.IntN(parts)
		case "step down":
			f.Target = r.IntN(4)
		}
		out = append(out, f)
	}
	return out
}

// nemesis carries the faults out, one after another, until ctx ends.
func (f *machines) nemesis(ctx context.Context, faults []fault, begin func(fault) (func() error, error)) error {
	for _, one := range faults {
		if !pause(ctx, one.Pause) {
			break
		}
		f.log.Info("fault", "fault", one.String())
		undo, err := begin(one)
		if err != nil {
			return fmt.Errorf("%s: %w", one, err)
		}
		pause(ctx, one.Lasts)
		if err := undo(); err != nil {
			return fmt.Errorf("undo %s: %w", one, err)
		}
	}
	return nil
}

// heal leaves everything whole.
func (f *machines) heal() error {
	f.cluster.HealAll()
	return f.store.set(false)
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// begin has one thing go wrong, and gives what ends it.
func (f *machines) begin(one fault) (undo func() error, err error) {
	nothing := func() error { return nil }
	part := f.parts[one.Target%len(f.parts)]
	switch one.Kind {
	case "stall part":
		part.door.Stall()
		return healed(part.door), nil
	case "stop part":
		return func() error { return part.own.signal(syscall.SIGCONT) }, part.own.signal(syscall.SIGSTOP)
	case "cut part":
		part.door.Cut()
		return healed(part.door), nil
	case "drop part":
		part.door.Drop()
	case "crash part":
		part.end()
		part.begin()
	case "slow store":
		return func() error { return f.store.set(false) }, f.store.set(true)
	case "slow disk":
		return f.server.own.slowDisk(longSync)
	case "restart node":
		if f.server != nil {
			f.server.end() // SIGKILL
			return func() error { f.server.begin(); return nil }, nil
		}
		f.cluster.StopNode(one.Target)
		return func() error { return f.cluster.StartNode(one.Target) }, nil
	case "step down":
		_ = f.cluster.StepDown(f.streams()[one.Target]) // refused where a choice is under way
	case "isolate node", "stall node", "cut pair":
		return f.partition(one), nil
	default:
		return nil, fmt.Errorf("unknown fault")
	}
	return nothing, nil
}

type healer interface{ Heal() }

func healed(what healer) func() error {
	return func() error { what.Heal(); return nil }
}

func (f *machines) partition(one fault) (undo func() error) {
	links := f.cluster.Routes(one.Target)
	if one.Kind == "cut pair" && one.Other != one.Target {
		links = f.cluster.Between(one.Target, one.Other)
	}
	for _, k := range links {
		if one.Kind == "stall node" {
			k.Stall()
		} else {
			k.Cut()
		}
	}
	return func() error {
		for _, k := range links {
			if one.Kind == "stall node" {
				k.Drop() // a connection that was silent for so long is given up
			}
			k.Heal()
		}
		return nil
	}
}
