package driver

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/diapause/diapause/schemas"
)

// Part is what one step of an operation took.
type Part struct {
	Name string        `json:"name"`
	Took time.Duration `json:"took"`
}

// Laps divides the time of an operation into parts that follow each other without a gap, so
// that they add up to the whole. Its methods do nothing on nil, and may be called concurrently.
type Laps struct {
	began time.Time

	mu    sync.Mutex
	last  time.Time
	parts []Part
}

// NewLaps begins an operation.
func NewLaps(now time.Time) *Laps { return &Laps{began: now, last: now} }

// Mark gives the time since the last mark to a part. One of a name that is there already grows.
func (l *Laps) Mark(name string) { l.mark(time.Now(), name) }

func (l *Laps) mark(now time.Time, name string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(name, now.Sub(l.last))
	l.last = now
}

// Divide gives the time since the last mark to the parts that another program measured, and
// what they leave of it to one more. They share the time if they claim more than there was.
func (l *Laps) Divide(parts []Part, rest string) { l.divide(time.Now(), parts, rest) }

func (l *Laps) divide(now time.Time, parts []Part, rest string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	left := now.Sub(l.last)
	for _, p := range parts {
		took := min(max(p.Took, 0), left)
		l.add(p.Name, took)
		left -= took
	}
	l.add(rest, left)
	l.last = now
}

// add is called with mu held.
func (l *Laps) add(name string, took time.Duration) {
	if i := slices.IndexFunc(l.parts, func(p Part) bool { return p.Name == name }); i >= 0 {
		l.parts[i].Took += took
		return
	}
	l.parts = append(l.parts, Part{name, took})
}

// Total gives the time from the beginning to the last mark.
func (l *Laps) Total() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last.Sub(l.began)
}

// Parts lists the parts.
func (l *Laps) Parts() []Part {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.parts)
}

// Stages gives the parts as stages, whose milliseconds add up to those of the total.
func (l *Laps) Stages() []schemas.Stage {
	var all []schemas.Stage
	var sum time.Duration
	for _, p := range l.Parts() {
		before := sum.Milliseconds()
		sum += p.Took
		all = append(all, schemas.Stage{Name: p.Name, MS: sum.Milliseconds() - before, Part: true})
	}
	return all
}

type lapsKey struct{}

// WithLaps has a driver's Capture or Restore say what its steps take.
func WithLaps(ctx context.Context, l *Laps) context.Context {
	return context.WithValue(ctx, lapsKey{}, l)
}

// LapsOf gives what the caller wants to know the steps by: nil if it doesn't.
func LapsOf(ctx context.Context) *Laps {
	l, _ := ctx.Value(lapsKey{}).(*Laps)
	return l
}
