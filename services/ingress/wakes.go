package ingress

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/diapause/diapause/schemas"
)

// wakes has sessions resumed, each once at a time however many requests wait for it, and remembers which run.
type wakes struct {
	waker  Waker
	budget time.Duration
	stop   context.Context // ends what is under way
	group  sync.WaitGroup  // of what is under way

	mu  sync.Mutex
	all map[schemas.Name]*wake
}

// wake is one resume, and then what is believed of the session.
type wake struct {
	began time.Time
	done  chan struct{}
	open  atomic.Int64 // requests that use it
	used  atomic.Int64 // when the last of them ended, or when it came to run; Unix, in nanoseconds

	// Set before done is closed.
	view schemas.View
	err  error

	mu     sync.Mutex
	taken  time.Time // when the first step of a resume was heard of
	stages []schemas.Progress
}

// errWaking: the budget ended before the session ran. The resume goes on.
var errWaking = errors.New("the session is being resumed")

func newWakes(stop context.Context, w Waker, budget time.Duration) *wakes {
	return &wakes{waker: w, budget: budget, stop: stop, all: map[schemas.Name]*wake{}}
}

// trusted is how long a session is believed to run that no request uses. After that it may have been
// suspended: then it is asked for, so that the request is named that resumes it.
const trusted = time.Second

// running gives a session that is believed to run.
func (s *wakes) running(n schemas.Name) (*wake, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.all[n]
	return w, ok && w.believed()
}

func (w *wake) believed() bool {
	return w.over() && w.err == nil && (w.open.Load() > 0 || time.Since(time.Unix(0, w.used.Load())) < trusted)
}

// enter says that a request uses the session until leave is called.
func (w *wake) enter() (leave func()) {
	w.open.Add(1)
	return func() {
		w.used.Store(time.Now().UnixNano())
		w.open.Add(-1)
	}
}

// seen says that a session was seen to run.
func (s *wakes) seen(n schemas.Name, v schemas.View) *wake {
	w := &wake{began: time.Now(), done: make(chan struct{}), view: v}
	w.used.Store(w.began.UnixNano())
	close(w.done)
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, ok := s.all[n]; ok && (!now.over() || now.believed() && now.view.UID == v.UID && now.view.Host == v.Host) {
		return now
	}
	s.keep(n, w)
	return w
}

// remembered bounds the sessions of which something is known.
const remembered = 10_000

// keep notes a wake; s.mu is locked. Where there are too many, those go that nothing is believed of.
func (s *wakes) keep(n schemas.Name, w *wake) {
	if len(s.all) >= remembered {
		maps.DeleteFunc(s.all, func(_ schemas.Name, old *wake) bool { return old.over() && !old.believed() })
	}
	s.all[n] = w
}

func (w *wake) over() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// last gives what is under way for a session or came of it last; nil if nothing is known.
func (s *wakes) last(n schemas.Name) *wake {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[n]
}

// forget ends the belief that a session runs, unless there is a newer one.
func (s *wakes) forget(n schemas.Name, w *wake) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[n] == w {
		delete(s.all, n)
	}
}

// await has a session run and waits for it until ctx ends. The error is errWaking if the budget has ended.
func (s *wakes) await(ctx context.Context, n schemas.Name, why Why) (*wake, error) {
	w := s.begin(n, why)
	select {
	case <-w.done:
		return w, w.err
	case <-ctx.Done():
		return w, context.Cause(ctx)
	}
}

// begin resumes a session, or joins those who do.
func (s *wakes) begin(n schemas.Name, why Why) *wake {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w, ok := s.all[n]; ok && (!w.over() || w.believed()) {
		return w
	}
	w := &wake{began: time.Now(), done: make(chan struct{})}
	s.keep(n, w)
	s.group.Go(func() {
		s.ensure(n, w, why)
		w.used.Store(time.Now().UnixNano())
		close(w.done)
		if schemas.CodeOf(w.err) == schemas.CodeNoSession {
			s.forget(n, w)
		}
	})
	return w
}

func (s *wakes) ensure(n schemas.Name, w *wake, why Why) {
	ctx, cancel := context.WithTimeout(s.stop, s.budget)
	defer cancel()
	unfollow := s.waker.Follow(n, w.step)
	defer unfollow()
	w.view, w.err = s.waker.Ensure(ctx, n, why)
	if code := schemas.CodeOf(w.err); w.err != nil && ctx.Err() != nil && (code == "" || code == schemas.CodeTimeout) {
		w.err = errWaking
	}
}

// maxStages bounds what a wake keeps of its steps.
const maxStages = 32

// step takes in how far an operation is.
func (w *wake) step(p schemas.Progress) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.taken.IsZero() && p.Kind != schemas.OpSuspend {
		w.taken = time.Now()
	}
	if last := len(w.stages) - 1; last >= 0 && w.stages[last].Op == p.Op && w.stages[last].Stage == p.Stage {
		w.stages[last] = p
		return
	}
	if len(w.stages) < maxStages {
		w.stages = append(w.stages, p)
	}
}

// takenAt is when the first step of the resume was heard of; zero if none was.
func (w *wake) takenAt() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.taken
}

// steps gives the steps so far.
func (w *wake) steps() []schemas.Progress {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]schemas.Progress{}, w.stages...)
}
