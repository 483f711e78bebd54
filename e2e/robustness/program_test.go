package robustness_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/s3"
	"github.com/diapause/diapause/objectstore/storetest/server"
	"github.com/diapause/diapause/schemas"
)

// programs are what a history with nothing but real parts has besides its machines: the
// program itself as a daemon, a worker and a second scheduler, with CRIU, and an S3 server.
// Each of them starts with failpoints armed, until calm.
type programs struct {
	*machines
	witness *witness
	s3      *server.Server
	url     string // of the store
	calm    atomic.Bool
	runs    atomic.Int64

	mu    sync.Mutex
	armed *rand.Rand
	hosts []*stack.Stack // for what is left behind
}

// newPrograms starts them around a NATS server that is a process of its own.
func newPrograms(f *machines, seed uint64) *programs {
	f.t.Helper()
	p := &programs{machines: f, witness: newWitness(f.t), armed: rand.New(rand.NewPCG(seed, 2<<32))}
	dir, err := stack.Dir()
	f.must(err)
	f.t.Cleanup(func() { os.RemoveAll(dir) })
	program, err := stack.Build(dir)
	f.must(err)
	p.s3, err = server.Start(f.t.Context(), server.MinIO, filepath.Join(dir, "s3"))
	f.must(err)
	f.t.Cleanup(p.s3.Kill)
	p.url = p.s3.URL("history")
	for _, args := range [][]string{{"up", "--lease", "5s"}, {"worker", "--lease", "5s"}, {"scheduler", "--name", "second"}} {
		p.start(program, dir, args)
	}
	f.t.Cleanup(func() {
		for _, h := range p.hosts {
			if f.t.Failed() {
				h.Destroy()
			}
		}
	})
	return p
}

// start runs the program with a data directory of its own, again whenever it ends.
func (p *programs) start(program, dir string, args []string) {
	h := stack.New(program, filepath.Join(dir, args[0]))
	log := &lockedLog{}
	own := &process{f: p.machines, command: func(urls string) *exec.Cmd {
		all := append(args, "--nats", urls, "-v")
		if args[0] != "scheduler" {
			all = append(all, "--data", h.Data, "--store", p.url)
		}
		cmd := exec.Command(program, all...)
		cmd.Env = append(os.Environ(), failpoint.Variable+"="+p.arm())
		cmd.Stdout, cmd.Stderr = log, log
		return cmd
	}}
	p.add(args[0], nil, own)
	p.t.Cleanup(func() { // before the part is ended, which is registered earlier
		if p.t.Failed() {
			p.log.Info("what it printed", "part", args[0], "text", log.text.String())
		}
	})
	if args[0] == "scheduler" {
		return
	}
	p.hosts = append(p.hosts, h)
	for deadline := time.Now().Add(limit); h.Host == ""; time.Sleep(20 * time.Millisecond) {
		if m := ready.FindSubmatch(log.bytes()); m != nil {
			h.Host = string(m[1])
		} else if time.Now().After(deadline) {
			p.t.Fatalf("%s isn't ready:\n%s", args[0], log.bytes())
		}
	}
}

var ready = regexp.MustCompile(`(?m)^ready: host (\S+), `)

func (l *lockedLog) bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.text.Bytes())
}

// armedAtOnce is how many failpoints a process starts with.
const armedAtOnce = 4

// arm draws failpoints for a process. Shims are never killed by them: what a session has in
// no image goes with its shim.
func (p *programs) arm() string {
	if p.calm.Load() {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for range armedAtOnce {
		name := moments[p.armed.IntN(len(moments))]
		does := []string{"error", "kill", "pause:300ms"}
		if strings.HasPrefix(string(name), "shim.") {
			does = []string{"error", "pause:300ms"}
		}
		all = append(all, fmt.Sprintf("%s=%s@%d", name, does[p.armed.IntN(len(does))], 1+p.armed.IntN(3)))
	}
	return strings.Join(all, ";")
}

// moments are where something may go wrong with no harm to what a session has.
var moments = []failpoint.Name{
	failpoint.SchedulerDecided, failpoint.SchedulerRecorded, failpoint.SchedulerCommanded, failpoint.APIAsked, failpoint.APIRecorded, failpoint.APICommanded,
	failpoint.WorkerFound, failpoint.WorkerClaimed, failpoint.CaptureStarts, failpoint.CaptureTaken, failpoint.CaptureDurable, failpoint.SuspendRecorded,
	failpoint.ReapHeard, failpoint.ReapKilled, failpoint.ReapRecorded, failpoint.ReviveRecorded, failpoint.CheckpointThawed, failpoint.CheckpointRecorded,
	failpoint.AbortThawed, failpoint.AbortRecorded, failpoint.ResumeCleared, failpoint.ResumeOpened, failpoint.KillStopped, failpoint.KillRecorded,
	failpoint.RemoveStopped, failpoint.RemoveUnneeded, failpoint.RemoveDeleted, failpoint.RemoveRecorded, failpoint.ImagePacks, failpoint.ImageKey, failpoint.ImageHeader,
	failpoint.CriuFenced, failpoint.CriuDumped, failpoint.CriuLayers, failpoint.CriuMemory, failpoint.CriuLetGo, failpoint.CriuVacant, failpoint.CriuStopped,
	failpoint.ShimGated, failpoint.ShimLooked, failpoint.ShimFrozen, failpoint.ShimDumped, failpoint.ShimRehearses, failpoint.ShimRehearsed, failpoint.ShimCompared, failpoint.ShimRead,
}

// The faults of processes and of what is around them, which go wrong beside each other.
var (
	ofParts  = []string{"crash part", "crash part", "stop part", "cut part", "drop part", "stall part"}
	ofAround = []string{"stop store", "stop store", "restart node"}
)

// harm carries out two plans beside each other until ctx ends, then restarts every
// process without failpoints.
func (p *programs) harm(ctx context.Context, seed uint64, length time.Duration) error {
	var all sync.WaitGroup
	failed := make(chan error, 2)
	for n, kinds := range [][]string{ofParts, ofAround} {
		faults := planOf(rand.New(rand.NewPCG(seed, uint64(3+n)<<32)), kinds, 1, len(p.parts), 1+int(length/time.Second))
		all.Go(func() { failed <- p.nemesis(ctx, faults, p.fault) })
	}
	all.Wait()
	<-ctx.Done()
	p.calm.Store(true)
	for _, part := range p.parts {
		part.end()
		part.begin()
	}
	return errorsOf(failed, 2)
}

func errorsOf(failed <-chan error, n int) error {
	for range n {
		if err := <-failed; err != nil {
			return err
		}
	}
	return nil
}

// fault has one thing go wrong.
func (p *programs) fault(one fault) (undo func() error, err error) {
	if one.Kind != "stop store" {
		return p.machines.begin(one)
	}
	p.s3.Kill()
	return func() error { return p.s3.Restart(p.t.Context()) }, nil
}

// counted gives the steps that the witness heard as operations of the history.
func (p *programs) counted(tr *traffic) (steps []porcupine.Operation) {
	type made struct {
		name schemas.Name
		uid  schemas.UID
	}
	by := map[string]made{}
	p.patiently(func() error {
		return p.records.Log(p.t.Context(), func(v statekv.Versioned) error {
			by[v.Program] = made{v.Name(), v.UID}
			return nil
		})
	})
	p.witness.mu.Lock()
	defer p.witness.mu.Unlock()
	for _, s := range p.witness.steps {
		m, known := by[s.run]
		if !known {
			p.complain("a session counts to %d that the log doesn't have: %s", s.n, s.run)
			continue
		}
		at := time.Since(tr.start).Nanoseconds() - time.Now().Round(0).Sub(s.at).Nanoseconds()
		steps = append(steps, porcupine.Operation{
			ClientId: clients, Call: at, Return: at + 1, Input: input{Session: m.name.String(), Verb: opCount, Strict: tr.strict},
			Output: output{Outcome: ok, UID: string(m.uid), Count: s.n},
		})
	}
	return steps
}

// left is what is there when every session has been removed.
func (p *programs) left() (out []string) {
	o, err := s3.Parse(p.url)
	p.must(err)
	s, err := s3.Open(p.t.Context(), o)
	p.must(err)
	p.must(s.List(p.t.Context(), "default/", func(i objectstore.Info) error {
		out = append(out, "the store keeps "+i.Name)
		return nil
	}))
	return out
}

// end stops the programs as their users do, and says what they leave on the machine.
func (p *programs) end() (out []string) {
	for _, part := range p.parts {
		part.own.gentle.Store(true)
		part.end()
	}
	for _, h := range p.hosts {
		if err := h.Leftovers(); err != nil {
			out = append(out, err.Error())
		}
	}
	return out
}
