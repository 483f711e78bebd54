package containers

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/diapause/diapause/workers/docker/dockertest"
)

// writers is how many processes of a container write at a time; each lets its caller know
// of every line that it wrote.
const writers = 8

// Once its image is taken nothing of a container executes: what a process has told someone
// that it wrote is in the image, up to the last word. The engine by itself ends the first
// process of a paused container and lets the others run until they are gone.
func TestNothingRunsAfterItsImage(t *testing.T) {
	e := dockertest.Shared(t)
	e.Busybox(t)
	h := newHost(t, e)
	h.must("run", "--name", "last", "--image", "busybox:test", "--container-name", "last", "--idle", "never", "--network", "none", "--", "sleep", "100000")
	for round := range rounds(2, 5) {
		h.until("last", ": >/n")
		said := h.acknowledge("last")
		h.until("last", "[ $(busybox wc -l </n) -gt 1000 ]")
		h.must("suspend", "last")
		last := said()
		h.must("ensure", "last")
		h.until("last", "true")
		kept, err := h.in("last", "cat /n")
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(kept, "\n")
		spoke := 0
		for _, l := range last {
			if l == "" { // it began too late to say anything
				continue
			}
			if spoke++; !slices.Contains(lines, l) {
				t.Errorf("round %d: %q was the last that was said to be written, and isn't there", round, l)
			}
		}
		if spoke == 0 {
			t.Errorf("round %d: no writer said anything", round)
		}
	}
	h.must("rm", "--yes", "last")
}

// acknowledge begins the writers. said waits until they are gone, and gives the last line
// that each of them released whole.
func (h *host) acknowledge(container string) (said func() []string) {
	last := make([]string, writers)
	var all sync.WaitGroup
	for i := range last {
		letter := string(rune('a' + i))
		all.Go(func() {
			// It ends with its container.
			out, _ := h.in(container, fmt.Sprintf("i=0; while :; do i=$((i+1)); echo %[1]s$i >>/n; echo %[1]s$i; done", letter))
			if end := strings.LastIndexByte(out, '\n'); end > 0 {
				out = out[:end]
				last[i] = out[strings.LastIndexByte(out, '\n')+1:]
			}
		})
	}
	return func() []string {
		all.Wait()
		return last
	}
}
