package programs

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/diapause/diapause/e2e/compat/local"
)

var (
	//go:embed state.py
	statePython string
	//go:embed state.js
	stateNode string
)

const python = "/usr/bin/python3"

// Python is an interpreter with a heap, threads, a generator in mid-flight, and
// open files, one of them unlinked.
func Python() Program {
	w := &watched{}
	return Program{
		Name: "python3", State: "heap by digest, 4 threads counting, generator, open file and offset, unlinked open file, unix socket",
		Needs: []string{python}, Version: []string{python, "--version"},
		Command: []string{python, "-c", statePython},
		Prepare: w.prepare, Check: w.check,
	}
}

// Node is node with a heap, a timer and a worker thread.
func Node() Program {
	w := &watched{}
	return Program{
		Name: "node", State: "heap by digest, timer and worker thread counting, open file, unix socket",
		Needs: []string{"node", python}, Version: []string{"node", "--version"},
		Command: []string{"node", "-e", stateNode},
		Prepare: w.prepare, Check: w.check,
	}
}

// told is what state.py and state.js answer.
type told struct {
	PID      int     `json:"pid"`
	Heap     string  `json:"heap"`
	Identity float64 `json:"identity"`
	Nameless string  `json:"nameless"`
	Threads  int     `json:"threads"`
	Counts   []int64 `json:"counts"`
	Offset   int64   `json:"offset"`
	Journal  string  `json:"journal"`
}

// watched is a program that tells its state, and the last that it told.
type watched struct{ last told }

const askState = `import socket, sys
s = socket.socket(socket.AF_UNIX); s.connect("/tmp/state.sock")
sys.stdout.write(s.makefile().read())`

func (w *watched) ask(ctx context.Context, s *local.Session) (told, error) {
	var t told
	out, err := s.Exec(ctx, "", python, "-c", askState)
	if err != nil {
		return t, err
	}
	if err := json.Unmarshal([]byte(out), &t); err != nil {
		return t, fmt.Errorf("read the state: %w", err)
	}
	return t, nil
}

func (w *watched) prepare(ctx context.Context, s *local.Session) error {
	if _, err := s.Until(ctx, patience, "test -S /tmp/state.sock"); err != nil {
		return err
	}
	t, err := w.ask(ctx, s)
	w.last = t
	return err
}

func (w *watched) check(ctx context.Context, s *local.Session, _ Round) error {
	t, err := w.ask(ctx, s)
	if err != nil {
		return err
	}
	if err := w.last.follows(t); err != nil {
		return err
	}
	return w.counting(ctx, s, t)
}

// follows compares two states of which nothing but the counters and the journal
// may differ.
func (w told) follows(t told) error {
	a, b := w, t
	a.Counts, b.Counts, a.Offset, b.Offset, a.Journal, b.Journal = nil, nil, 0, 0, "", ""
	if x, y := fmt.Sprintf("%+v", a), fmt.Sprintf("%+v", b); x != y {
		return same("the state", x, y)
	}
	switch {
	case t.Offset != int64(len(t.Journal)):
		return fmt.Errorf("the open file is at %d, its content has %d bytes", t.Offset, len(t.Journal))
	case !strings.HasPrefix(t.Journal, w.Journal) || strings.Count(t.Journal, "\n") != strings.Count(w.Journal, "\n")+1:
		return fmt.Errorf("the open file had %q and has %q", w.Journal, t.Journal)
	case len(t.Counts) != len(w.Counts):
		return fmt.Errorf("there were %d counters and are %d", len(w.Counts), len(t.Counts))
	}
	for i, n := range t.Counts {
		if n < w.Counts[i] {
			return fmt.Errorf("counter %d was %d and is %d", i, w.Counts[i], n)
		}
	}
	return nil
}

// counting waits until every counter has gone on from where t has it.
func (w *watched) counting(ctx context.Context, s *local.Session, t told) error {
	for deadline := time.Now().Add(patience); ; {
		now, err := w.ask(ctx, s)
		if err != nil {
			return err
		}
		still := -1
		for i, n := range now.Counts {
			if n <= t.Counts[i] {
				still = i
			}
		}
		w.last = now
		if still < 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("counter %d stands still at %d", still, now.Counts[still])
		}
	}
}
