package shim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/lease/term"
	"github.com/diapause/diapause/workers/driver"
)

// Lease is how long a session may run without another word, as the worker tells
// the shim.
type Lease struct {
	Until  term.Clock    `json:"until"`
	Within time.Duration `json:"within"` // that freezing may take, else the session is killed
	Guard  bool          `json:"guard"`  // freeze the session when that is over; else only no thaw comes later
}

// LeaseOf gives what a fence says of the host's lease now; nil if it says nothing.
func LeaseOf(f driver.Fence) *Lease {
	if f.Lease == nil {
		return nil
	}
	r := f.Lease()
	return &Lease{Until: r.Until, Within: r.Within, Guard: f.Guard}
}

// guard freezes a session by itself when its host's lease isn't renewed, whether
// the worker lives or not: another host may resume the session then. Its timer goes
// on while the machine sleeps.
type guard struct {
	freeze func(context.Context) error
	thaw   func() error
	kill   func(context.Context) error
	points *points

	mu     sync.Mutex // held while freezing and thawing
	timer  *os.File   // nil before the first lease that guards
	lease  Lease
	held   bool // criu, or what starts it, has the processes: they stand still, and it wants them thawed
	late   bool // and the lease ran out meanwhile
	fenced bool // the session froze by itself, and wasn't thawed since
	killed bool // or it didn't freeze in time
}

// hear takes in what a worker says of the lease. It refuses a lease that is over
// already: what was to run by it must not.
func (g *guard) hear(l *Lease) error {
	if l == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if over := term.Now().Sub(l.Until); over >= 0 {
		return fmt.Errorf("%w: it was to be renewed %v ago", driver.ErrNoLease, over.Round(time.Millisecond))
	}
	if !l.Guard {
		return nil
	}
	g.fence() // the one before may have run out just now, and not be noticed yet
	if g.timer == nil {
		if err := g.begin(); err != nil {
			return err
		}
	}
	if l.Until > g.lease.Until {
		g.lease = *l
	}
	return g.set()
}

// begin makes the timer. Callers hold mu.
func (g *guard) begin() error {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("make the timer of the host's lease: %w", err)
	}
	g.timer = os.NewFile(uintptr(fd), "lease timer")
	go g.watch(g.timer)
	return nil
}

// set has the timer go off when the lease is over. Callers hold mu.
func (g *guard) set() error {
	raw, err := g.timer.SyscallConn()
	if err != nil {
		return fmt.Errorf("set the timer of the host's lease: %w", err)
	}
	at := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(g.lease.Until))}
	ctlErr := raw.Control(func(fd uintptr) { err = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME, &at, nil) })
	if err = errors.Join(ctlErr, err); err != nil {
		return fmt.Errorf("set the timer of the host's lease: %w", err)
	}
	return nil
}

// watch goes on until the process ends.
func (g *guard) watch(timer *os.File) {
	b := make([]byte, binary.Size(uint64(0)))
	for {
		if _, err := timer.Read(b); err != nil {
			return
		}
		g.mu.Lock()
		g.fence()
		g.mu.Unlock()
	}
}

// over reports whether the session must stand still. Callers hold mu.
func (g *guard) over() bool { return g.timer != nil && term.Now() >= g.lease.Until }

// fence freezes the session if the lease is over, and kills what doesn't freeze in
// time. Callers hold mu.
func (g *guard) fence() {
	if !g.over() && !g.late || g.fenced {
		return
	}
	if g.late = g.held; g.late {
		return
	}
	err := g.points.at(failpoint.ShimOver)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), g.lease.Within)
		err = g.freeze(ctx)
		cancel()
	}
	if err == nil {
		err = g.points.at(failpoint.ShimStill)
	}
	if err == nil {
		g.fenced = true
		return
	}
	g.killed = true
	ctx, cancel := context.WithTimeout(context.Background(), stopWait)
	defer cancel()
	// What doesn't die here is killed again by the worker, as what it no longer owns.
	_ = g.kill(ctx)
}

// release thaws the session, unless the lease is over. One that was over meanwhile has it
// thawed by a worker's order alone (ordered): the worker has made sure that no other host has it.
func (g *guard) release(ordered bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fence(); g.over() || g.fenced && !ordered {
		return &driver.Error{Kind: driver.Transient, Text: "it stays frozen until its host has renewed its lease", Err: driver.ErrNoLease}
	}
	if err := g.thaw(); err != nil {
		return err
	}
	g.fenced = false
	return nil
}

// live says whether the session may run its first instruction, as far as its lease goes.
func (g *guard) live() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over() || g.late {
		return fmt.Errorf("%w, before it was let run", driver.ErrNoLease)
	}
	return nil
}

// hold runs criu, which stops the processes by itself and needs the freezer for that, or
// what starts them. What the lease asked for meanwhile is done after it.
func (g *guard) hold(run func() error) error {
	g.mu.Lock()
	g.held = true
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.held = false
		g.fence()
	}()
	return run()
}

// state reports whether the session froze by itself, and whether it was killed for
// not freezing.
func (g *guard) state() (fenced, killed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fenced, g.killed
}
