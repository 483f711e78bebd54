package failpoint

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Set is what goes wrong where. It is safe for concurrent use, and nil is the set
// of nothing.
type Set struct {
	mu    sync.Mutex
	armed map[Name][]fault
	times map[Name]int
}

// fault is what happens the n-th time, counted from one, that a moment is reached.
type fault struct {
	nth int
	do  func(context.Context) error
}

// New makes a set of nothing, which counts.
func New() *Set { return &Set{armed: map[Name][]fault{}, times: map[Name]int{}} }

// Arm has do called the nth time, from one, that a moment is reached, counted since
// the set was made; its error is At's. A name that isn't in Names is an error.
func (s *Set) Arm(n Name, nth int, do func(context.Context) error) error {
	if !slices.Contains(all, n) {
		return fmt.Errorf("failpoint %q: there is none of that name", n)
	}
	if nth < 1 {
		return fmt.Errorf("failpoint %s: the %d-th time never comes, the first is 1", n, nth)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed[n] = append(s.armed[n], fault{nth, do})
	return nil
}

// At is called when a moment is reached.
func (s *Set) At(ctx context.Context, n Name) error {
	if s == nil {
		return nil
	}
	return s.reach(ctx, n)
}

func (s *Set) reach(ctx context.Context, n Name) error {
	s.mu.Lock()
	s.times[n]++
	times := s.times[n]
	i := slices.IndexFunc(s.armed[n], func(f fault) bool { return f.nth == times })
	var do func(context.Context) error
	if i >= 0 {
		do = s.armed[n][i].do
	}
	s.mu.Unlock()
	if do == nil {
		return nil
	}
	if err := do(ctx); err != nil {
		return fmt.Errorf("failpoint %s: %w", n, err)
	}
	return nil
}

// Reached gives how often a moment was reached.
func (s *Set) Reached(n Name) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.times[n]
}
