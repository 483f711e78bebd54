package upgrade

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// load keeps suspending and resuming sessions that count, until it is ended.
type load struct {
	f        *fleet
	sessions []*busy
	stop     func()
	done     sync.WaitGroup
}

// busy is a session under load.
type busy struct {
	name string

	mu      sync.Mutex
	rounds  int // a suspend and a resume each
	refused []string
}

// newLoad starts so many sessions on each host.
func newLoad(f *fleet, each int) *load {
	f.t.Helper()
	stop := make(chan struct{})
	l := &load{f: f, stop: sync.OnceFunc(func() { close(stop) })}
	for _, p := range f.hosts() {
		for i := range each {
			b := &busy{name: fmt.Sprintf("%s%d", p.name, i)}
			f.run(b.name, p)
			l.sessions = append(l.sessions, b)
		}
	}
	for _, b := range l.sessions {
		l.done.Go(func() { l.turn(b, stop) })
	}
	f.t.Cleanup(l.end)
	return l
}

// turn suspends and resumes a session again and again. What is refused, since a part is away, is asked
// for again.
func (l *load) turn(b *busy, stop <-chan struct{}) {
	for {
		err := l.round(b.name)
		b.mu.Lock()
		if err == nil {
			b.rounds++
		} else {
			b.refused = append(b.refused, err.Error())
		}
		b.mu.Unlock()
		pause := time.Duration(0)
		if err != nil {
			pause = 200 * time.Millisecond
		}
		select {
		case <-stop:
			return
		case <-time.After(pause):
		}
	}
}

func (l *load) round(name string) error {
	for _, verb := range []string{"suspend", "ensure"} {
		if r := l.f.do(verb, "--timeout", "30s", name); r.Code != 0 {
			return fmt.Errorf("%s: exit %d: %s", verb, r.Code, strings.TrimSpace(r.Err))
		}
	}
	return nil
}

// end waits until no session is suspended or resumed any more.
func (l *load) end() {
	l.stop()
	l.done.Wait()
}

func (b *busy) so() (rounds int, refused string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rounds, strings.Join(b.refused, "\n")
}

// goesOn waits until each session was suspended and resumed, from now on.
func (l *load) goesOn() {
	l.f.t.Helper()
	before := map[*busy]int{}
	for _, b := range l.sessions {
		before[b], _ = b.so()
	}
	for _, b := range l.sessions {
		until(l.f.t, "session "+b.name+" is suspended and resumed", func() error {
			if rounds, refused := b.so(); rounds < before[b]+2 { // the first was under way
				return fmt.Errorf("%d rounds, refused:\n%s", rounds, refused)
			}
			return nil
		})
	}
}

// tell says what the load came to.
func (l *load) tell() {
	for _, b := range l.sessions {
		rounds, refused := b.so()
		l.f.t.Logf("session %s: %d rounds, refused:\n%s", b.name, rounds, refused)
	}
}
