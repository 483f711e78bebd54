package dockertest

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

// atOnce is how many engines the tests of a binary share: so many of them run beside each other.
const atOnce = 3

// engines are those that tests share. A test has one for itself, until it ends.
type engines struct {
	mu      sync.Mutex
	change  *sync.Cond // of what is below
	started []*Engine
	free    []*Engine
	coming  int               // those that are being started
	err     error             // of one that didn't start: there are no more, then
	held    map[string]*stint // by the name of the test
}

// stint is what a test and its subtests have of an engine.
type stint struct {
	engine *Engine // nil until it is there
	users  int
}

var shared = newEngines()

func newEngines() *engines {
	s := &engines{held: map[string]*stint{}}
	s.change = sync.NewCond(&s.mu)
	return s
}

// Main runs a test binary's tests, stops the engines that they shared, and exits.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run does the same, and gives the code to exit with.
func Run(m *testing.M) int {
	code := m.Run()
	for _, e := range shared.started {
		if err := e.Remove(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}

// Shared gives a test an engine that is its and its subtests' alone until they end, and then
// another test's. It waits while all are taken. The test binary's Main has to be this package's.
func Shared(t testing.TB) *Engine {
	t.Helper()
	test, _, _ := strings.Cut(t.Name(), "/")
	e, err := shared.take(test)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shared.give(test) })
	return e
}

func (s *engines) take(test string) (*Engine, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[test]
	if h == nil {
		h = &stint{}
		s.held[test] = h
		e, err := s.next()
		if h.engine = e; err != nil {
			delete(s.held, test)
		}
		s.change.Broadcast()
	}
	for h.engine == nil && s.err == nil { // a subtest beside this one waits for it
		s.change.Wait()
	}
	h.users++
	return h.engine, s.err
}

// next gives an engine that is free, or a new one if there may be more.
func (s *engines) next() (*Engine, error) {
	for s.err == nil && len(s.free) == 0 && len(s.started)+s.coming == atOnce {
		s.change.Wait()
	}
	if s.err != nil {
		return nil, s.err
	}
	if last := len(s.free) - 1; last >= 0 {
		e := s.free[last]
		s.free = s.free[:last]
		return e, nil
	}
	s.coming++
	s.mu.Unlock()
	e, err := Start()
	s.mu.Lock()
	if s.coming--; err != nil {
		s.err = err
		return nil, err
	}
	s.started = append(s.started, e)
	return e, nil
}

func (s *engines) give(test string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[test]
	if h.users--; h.users == 0 {
		delete(s.held, test)
		s.free = append(s.free, h.engine)
		s.change.Broadcast()
	}
}
