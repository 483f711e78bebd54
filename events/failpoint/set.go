package failpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Set is what goes wrong where. It is safe for concurrent use, and nil is the set
// of nothing.
type Set struct {
	mu    sync.Mutex
	armed map[Name][]fault
	times map[Name]int
	items []item // what Parse read
	once  string // the directory of marks; "" if it is this process's alone
}

// item is one fault as Parse read it.
type item struct {
	name Name
	text string
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
	if first, err := s.mark(n, times); err != nil || !first {
		return err
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

// mark leaves a file that says what happens now, with this process's id in it, and reports whether no other process
// did so before.
func (s *Set) mark(n Name, times int) (first bool, err error) {
	if s.once == "" {
		return true, nil
	}
	f, err := os.OpenFile(filepath.Join(s.once, fmt.Sprintf("%s@%d", n, times)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("failpoint %s: leave a mark: %w", n, err)
	}
	_, err = fmt.Fprintln(f, os.Getpid())
	return true, errors.Join(err, f.Close())
}

// Text gives, in the words of Parse, what Parse armed of the moments whose names
// begin with prefix, for another process; "" if that is nothing.
func (s *Set) Text(prefix string) string {
	if s == nil {
		return ""
	}
	var all []string
	for _, i := range s.items {
		if strings.HasPrefix(string(i.name), prefix) {
			all = append(all, i.text)
		}
	}
	if len(all) > 0 && s.once != "" {
		all = append(all, onceItem+"="+s.once)
	}
	return strings.Join(all, ";")
}
