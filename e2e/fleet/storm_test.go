package fleet

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
)

// Sessions of two hosts that are woken all at once come back, each where it was: no wake runs out of
// time, and both hosts work on it. There are 100 of them with DIAPAUSE_LONG=1.
func TestWakeStorm(t *testing.T) {
	t.Parallel()
	count := 10
	if os.Getenv("DIAPAUSE_LONG") != "" {
		count = 100
	}
	h := newHosts(t)
	on := []*host{h.add("a").start(), h.add("b").start()}
	witnesses := make([]*witness, count)
	name := func(i int) string { return fmt.Sprintf("s%d", i) }
	for i := range witnesses {
		witnesses[i] = newWitness(t)
		h.run(on[i%len(on)], name(i), witnesses[i])
	}
	h.each(count, func(i int) error { return h.succeed("suspend", name(i)) })
	began := time.Now()
	took := make([]time.Duration, count)
	h.each(count, func(i int) error {
		err := h.succeed("ensure", name(i))
		took[i] = time.Since(began)
		return err
	})
	slices.Sort(took)
	t.Logf("%d woken: the first after %v, half of them after %v, the last after %v", count, took[0], took[count/2], took[count-1])
	for _, w := range on {
		if kb := w.peak(); kb > most<<10 {
			t.Errorf("host %s took up to %d kB of memory, want %d MB at most", w.id, kb, most)
		} else {
			t.Logf("host %s took up to %d kB of memory", w.id, kb)
		}
	}
	for i, w := range witnesses {
		v := h.awaitState(name(i), schemas.Running, on[i%len(on)])
		w.goesOn()
		if at := w.drops(); len(at) > 0 || v.Boot != schemas.BootResume {
			t.Errorf("session %s: boot %s, its count went back: %v", v.Name, v.Boot, at)
		}
	}
	h.audit()
}

// most is what a worker may take while it suspends and wakes many sessions at once, in MB, as the race
// detector counts it: it works on a bounded number of them at a time.
const most = 512

// peak is the most memory that a worker has had, in kB.
func (w *host) peak() (kb int) {
	w.hosts.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.cmd.Process.Pid))
	if err != nil {
		w.hosts.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	if _, err := fmt.Sscan(rest, &kb); err != nil {
		w.hosts.t.Fatalf("VmHWM: %v", err)
	}
	return kb
}

// each does something with all at once, and has all of it succeed.
func (h *hosts) each(count int, do func(i int) error) {
	h.t.Helper()
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() {
			if err := do(i); err != nil {
				h.t.Error(err)
			}
		})
	}
	all.Wait()
}

// succeed runs a verb, and gives what it says if it fails.
func (h *hosts) succeed(args ...string) error {
	r := h.up.Do(args...)
	if r.Code != 0 {
		return fmt.Errorf("%s: exit %d: %s", strings.Join(args, " "), r.Code, r.Err)
	}
	return nil
}
