package fleet

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
)

// gaps says where a count didn't go on with the next number.
func (w *witness) gaps() (at []string) {
	all := w.numbers()
	for i := 1; i < len(all); i++ {
		if all[i] != all[i-1]+1 {
			at = append(at, fmt.Sprintf("%d after %d", all[i], all[i-1]))
		}
	}
	return at
}

// ask has one client suspend, resume and move sessions until it is told to stop. What it asks of a host that is
// being killed may be refused.
func (h *hosts) ask(r *rand.Rand, ids []schemas.HostID, sessions int, stop <-chan struct{}) (done, refused int) {
	for {
		select {
		case <-stop:
			return done, refused
		default:
		}
		name := fmt.Sprintf("s%d", r.IntN(sessions))
		args := [][]string{
			{"suspend", name}, {"ensure", name}, {"checkpoint", name}, {"move", name, "--host", string(ids[r.IntN(len(ids))])},
		}[r.IntN(4)]
		if h.up.Do(append(args, "--timeout", "20s")...).Code == 0 {
			done++
		} else {
			refused++
		}
	}
}

// killAtRandom kills one worker after the other, and starts each again within the lease or after it.
func (h *hosts) killAtRandom(r *rand.Rand, period time.Duration) (kills int) {
	h.t.Helper()
	for end := time.Now().Add(period); time.Now().Before(end); kills++ {
		time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
		w := h.all[r.IntN(len(h.all))]
		w.end(syscall.SIGKILL)
		time.Sleep(time.Duration(r.IntN(8000)) * time.Millisecond)
		w.start()
	}
	return kills
}

// Workers are killed at random while their sessions are suspended, resumed and moved: each session goes on with the
// next number, at any step that was cut short. With DIAPAUSE_LONG=1 these are 200 sessions and five minutes.
func TestWorkersKilledAtRandom(t *testing.T) {
	t.Parallel()
	count, period := 20, time.Minute
	if os.Getenv("DIAPAUSE_LONG") != "" {
		count, period = 200, 5*time.Minute
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	h := newHosts(t)
	for _, name := range []string{"a", "b", "c"} {
		h.add(name).start()
	}
	witnesses := make([]*witness, count)
	for i := range witnesses {
		witnesses[i] = newWitness(t)
		h.run(h.all[i%len(h.all)], fmt.Sprintf("s%d", i), witnesses[i])
	}

	var ids []schemas.HostID
	for _, w := range h.all {
		ids = append(ids, w.id)
	}
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() {
			done, refused := h.ask(rand.New(rand.NewPCG(seed, uint64(i))), ids, count, stop)
			t.Logf("a client was answered %d times, and refused %d times", done, refused)
			if done == 0 {
				t.Error("nothing that a client asked was done")
			}
		})
	}
	kills := func() int { // which may end the test
		defer clients.Wait()
		defer close(stop)
		return h.killAtRandom(rand.New(rand.NewPCG(seed, 4)), period)
	}()
	t.Logf("workers were killed %d times", kills)

	for i, w := range witnesses {
		name := fmt.Sprintf("s%d", i)
		eventually(t, name+" runs", func() error { return h.succeed("ensure", name) })
		w.goesOn()
		h.awaitTrees(h.view(name), 1)
		if at := w.gaps(); len(at) > 0 {
			t.Errorf("session %s doesn't go on with the next number: %v", name, at)
		}
		if v := h.view(name); v.State != schemas.Running {
			t.Errorf("session %s is %s", name, v.State)
		}
	}
	h.audit()
}
