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

// Lease is how long a session may run until the worker renews it.
type Lease struct {
	Until  term.Clock    `json:"until"`
	Within time.Duration `json:"within"` // how long freezing may take, or the session is killed
	Guard  bool          `json:"guard"`  // freeze the session when it is over; if false, only later thaws are refused
}

// LeaseOf returns the host's lease as a fence has it now; nil if it has none.
func LeaseOf(f driver.Fence) *Lease {
	if f.Lease == nil {
		return nil
	}
	r := f.Lease()
	return &Lease{Until: r.Until, Within: r.Within, Guard: f.Guard}
}

// guard freezes the session when its host's lease isn't renewed in time, even if the
// worker is dead: another host may resume the session then. Its timer also runs while
// the machine is suspended.
type guard struct {
	freeze func(context.Context) error
	thaw   func() error
	kill   func(context.Context) error
	points *points

	mu     sync.Mutex // held while freezing and thawing
	timer  *os.File   // nil before the first lease that guards
	lease  Lease
	held   bool // criu, or a start, controls the processes: they stand still, and it needs them thawed
	late   bool // held, and the lease ran out meanwhile
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
	g.fence() // the lease so far may have run out just now
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

// set sets the timer to the end of the lease. Callers hold mu.
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

// watch calls fence when the timer expires, until the process ends.
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
	// The worker kills what is left: it no longer owns the session.
	_ = g.kill(ctx)
}

// release thaws the session, unless the lease is over. If the lease ran out meanwhile,
// only a worker's order (ordered) thaws it: the worker has made sure that no other host
// has the session.
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

// live returns ErrNoLease if the session may not run its first instruction.
func (g *guard) live() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over() || g.late {
		return fmt.Errorf("%w, before it was let run", driver.ErrNoLease)
	}
	return nil
}

// hold calls run while criu, or a start, controls the processes: criu stops them by
// itself and uses the freezer for that. If the lease runs out meanwhile, the session is
// frozen when run has returned.
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
