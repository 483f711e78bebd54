package robustness_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

var (
	duration = flag.Duration("robustness.time", 0, "for how long to make histories; one short one of each kind if zero")
	seed     = flag.Uint64("robustness.seed", 0, "of the requests and faults; drawn if zero")
	kept     = flag.String("robustness.history", "", "check this file, of a history that was kept")
)

// The sizes of a run.
const (
	clients = 6
	slots   = 5
	short   = 12 * time.Second // of a run that is part of make test
	long    = 60 * time.Second
)

// kind says what a history is made with.
type kind struct {
	servers int
	own     bool // workers and services are processes of their own, which can be stopped
	program bool // they are the program itself, with CRIU and an S3 server
}

// What clients are told agrees with one session's life, on one server and on a
// cluster of three, while parts fail. What the other kinds have too is left to longer runs.
func TestHistories(t *testing.T) {
	kinds := map[string]kind{"three servers": {servers: 3}, "program": {servers: 1, own: true, program: true}}
	if os.Getenv("DIAPAUSE_LONG") != "" || *seed != 0 || *duration > 0 {
		kinds["one server"], kinds["processes"] = kind{servers: 1}, kind{servers: 1, own: true}
	}
	for name, k := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, length := *seed, short
			if first == 0 {
				first = rand.Uint64N(1 << 40)
			}
			if *duration > 0 {
				length = min(long, *duration)
			}
			until := time.Now().Add(*duration)
			for s := first; ; s++ {
				t.Run(fmt.Sprint("seed ", s), func(t *testing.T) { makeHistory(t, k, s, length) })
				if t.Failed() || time.Until(until) < length {
					return
				}
			}
		})
	}
}

// A history that is kept can be checked again, and is found as wrong as it was.
func TestKept(t *testing.T) {
	file := *kept
	if file == "" {
		bad := []porcupine.Operation{does(0, opRun), counts(10, 1), counts(20, 1)}
		wrong, info := linearizable(bad)
		var err error
		file, _, err = save(t.TempDir(), "bad", bad, info)
		if err != nil || wrong == "" {
			t.Fatalf("%q, %v", wrong, err)
		}
	}
	history, err := load(file)
	if err != nil {
		t.Fatal(err)
	}
	wrong, _ := linearizable(history)
	if *kept == "" && (wrong == "" || len(history) != 3) {
		t.Errorf("%d operations, %q", len(history), wrong)
	}
	if *kept != "" && wrong != "" {
		t.Error(wrong)
	}
}

// makeHistory lets clients and faults loose for a while, then has everything
// healed, ends every session in an orderly way, and judges what happened.
func makeHistory(t *testing.T, k kind, seed uint64, length time.Duration) {
	said := &lockedLog{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(said.kept())
		}
	})
	f := newMachines(t, k, said)
	clients, slots := clients, slots
	if k.program { // CRIU takes longer than a fake
		clients, slots = 4, 3
	}
	tr := newTraffic(f, slots)
	tr.said = said
	harm, counted := f.harm(k, seed, length), func() []porcupine.Operation { return nil }
	if k.program {
		p := newPrograms(f, seed)
		tr.programs, f.elsewhere = p, p
		harm = func(ctx context.Context) error { return p.harm(ctx, seed, length) }
		counted = func() []porcupine.Operation { return p.counted(tr) }
	}
	all := make([]*client, clients)
	for i := range all {
		all[i] = tr.client(i, seed)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var running sync.WaitGroup
	for _, c := range all {
		running.Go(func() { c.serve(ctx) })
	}
	harmful, over := context.WithTimeout(ctx, length)
	defer over()
	if err := errors.Join(harm(harmful), f.heal()); err != nil {
		t.Error(err)
	}
	<-harmful.Done()
	tr.enough(t)
	stop()
	running.Wait()
	f.cluster.AwaitCurrent(f.streams()...)
	all[0].settle(t)
	tr.history = append(tr.history, counted()...)
	f.judge(t, tr, seed)
}

// harm gives what has the faults of a plan happen until its context ends.
func (f *machines) harm(k kind, seed uint64, length time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		faults := plan(rand.New(rand.NewPCG(seed, 1<<32)), k, len(f.parts), 1+int(length/time.Second))
		return f.nemesis(ctx, faults, f.begin)
	}
}

func (tr *traffic) client(i int, seed uint64) *client {
	f := tr.f
	nc, err := f.cluster.Door().Connect()
	f.must(err)
	f.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	f.must(err)
	return &client{tr: tr, number: i, rand: rand.New(rand.NewPCG(seed, uint64(i))), nc: nc, js: js}
}

// enough waits until the clients have done enough for the history to mean
// something.
func (tr *traffic) enough(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		tr.mu.Lock()
		n := len(tr.history)
		tr.mu.Unlock()
		if n >= tr.enoughOf() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("only %d operations within %s of the last fault", n, limit)
		}
	}
}

// settle uses, suspends and removes every session that is left: nothing is stuck.
func (c *client) settle(t *testing.T) {
	t.Helper()
	var all []statekv.Versioned
	c.tr.f.patiently(func() (err error) {
		all, err = c.tr.f.records.All(t.Context())
		return err
	})
	for _, v := range all {
		if v.State == schemas.Deleted && v.Op == nil {
			continue
		}
		name := v.Name().String()
		for _, verb := range []string{opEnsure, opCount, opSuspend, opEnsure, opCount, opRemove} {
			c.insist(t, name, verb, v.UID)
		}
	}
}

// insist asks until it works, or the session turns out to be over or gone.
func (c *client) insist(t *testing.T, name, verb string, uid schemas.UID) {
	t.Helper()
	in := input{Session: name, Verb: verb, Strict: c.tr.strict}
	var out output
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if verb == opCount { // its grace may have passed again
			c.do(input{Session: name, Verb: opEnsure, Strict: c.tr.strict}, uid)
		}
		out = c.do(in, uid)
		n, err := schemas.ParseName(name)
		c.tr.f.must(err)
		var v statekv.Versioned
		c.tr.f.patiently(func() (err error) {
			v, err = c.tr.f.records.Get(t.Context(), n)
			return err
		})
		if v.State == schemas.Failed && verb == opEnsure { // its resumes failed, on purpose
			c.do(input{Session: name, Verb: opResume, Strict: c.tr.strict}, uid)
		}
		if v.State == schemas.Deleted && v.Op == nil || verb != opRemove && (out.Outcome == ok || v.State == schemas.Exited || v.State == schemas.Deleted) {
			return
		}
	}
	_ = pprof.Lookup("goroutine").WriteTo(c.tr.said, 1) // what it hangs on
	t.Fatalf("when all is well again, session %s doesn't %s: %s %s", name, verb, out.Outcome, out.Text)
}

// judge says what is wrong with what happened.
func (f *machines) judge(t *testing.T, tr *traffic, seed uint64) {
	t.Helper()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	wrong, info := linearizable(tr.history)
	f.mu.Lock()
	problems := append(f.broken, afterlife(tr.history)...)
	f.mu.Unlock()
	problems = append(problems, f.logged(tr.answers)...)
	problems = append(problems, f.leftovers()...)
	if wrong != "" {
		problems = append(problems, wrong)
	}
	outcomes := map[string]int{}
	for _, o := range tr.history {
		outcomes[o.Input.(input).Verb+" "+o.Output.(output).Outcome]++
	}
	t.Logf("%d operations, %d answers: %v", len(tr.history), len(tr.answers), outcomes)
	if len(problems) == 0 {
		return
	}
	for _, p := range problems {
		t.Error(p)
	}
	name := fmt.Sprintf("%s-seed-%d", strings.ReplaceAll(t.Name(), "/", "-"), seed)
	dir, err := os.MkdirTemp("", "diapause-history-")
	f.must(err)
	_, again, err := save(dir, name, tr.history, info)
	if err != nil {
		t.Error(err)
	}
	t.Errorf("the same requests and faults: make robustness SEED=%d\nthis history: %s", seed, again)
}

// lockedLog keeps what the parts say, for a failure.
type lockedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// kept writes all of it to a file, and names it.
func (l *lockedLog) kept() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	file, err := os.CreateTemp("", "diapause-history-*.log")
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	if _, err := file.Write(l.text.Bytes()); err != nil {
		return err.Error()
	}
	return "what the parts said: " + file.Name()
}
