package shim

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"

	"github.com/diapause/diapause/events/attach/backlog"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/cgroup"
	"github.com/diapause/diapause/workers/shim/control"
	"github.com/diapause/diapause/workers/shim/stage"
)

// session supervises the one session of this shim: it brings the session up, carries
// out the orders of workers and notes its end. Each of its parts has one job and holds
// only what that needs.
type session struct {
	setup   Setup
	points  *points
	lock    *os.File // held as long as the shim lives
	state   *stateFile
	guard   *guard
	tree    *processes
	gate    *gate
	runner  *runner
	clients *clients
	dumper  *dumper

	recorder *recorder // of the terminal; nil if it isn't recorded

	online *online // the private network, if it has one

	// terminals keeps the terminals' names of a session that was restored.
	terminals *os.File

	// work is held during a capture, a thaw, a stop and a look for blockers.
	work    sync.Mutex
	stopped chan struct{} // closed when all is dead after an order to stop
}

// newSession makes the parts of a session, and the boot that bringUp carries out.
func newSession(setup Setup, worker *control.Conn) (s *session, b *boot, bringUp func() error, err error) {
	group, beside, err := groups(setup)
	if err != nil {
		return nil, nil, nil, err
	}
	program, err := openProgram()
	if err != nil {
		return nil, nil, nil, err
	}
	resolver := stage.Resolver()
	place, err := newPlace(setup)
	if err != nil {
		return nil, nil, nil, err
	}
	facts := openFacts(setup)
	points := &points{}
	if err := points.hear(setup.Failpoints); err != nil {
		return nil, nil, nil, err
	}
	tree, gate, typists := newProcesses(setup.Name, group), newGate(), &typists{}
	viewers := &viewers{port: setup.Spec.Desktop}
	run := &runner{
		name: setup.Name, spec: setup.Spec, limits: setup.Limits, self: setup.Self, terminals: place.terminals(), program: program, gate: gate, tree: tree,
	}
	guard := &guard{freeze: group.Freeze, kill: tree.kill, points: points}
	s = &session{
		setup: setup, points: points, state: newStateFile(setup), guard: guard, tree: tree, gate: gate, runner: run,
		clients: &clients{name: setup.Name, gate: gate, tree: tree, runner: run, typists: typists, viewers: viewers},
		dumper: &dumper{
			name: setup.Name, criu: setup.Criu, onSuspend: setup.Spec.Hooks.OnSuspend, emptyNetwork: setup.emptyNetwork(), privateNetwork: setup.privateNetwork(), filter: setup.Limits.Digest(), networkAdmin: setup.networkAdmin(),
			place: place, facts: facts, group: group, beside: beside, gate: gate, guard: guard, points: points, tree: tree, typists: typists, runner: run, picture: picture{port: setup.Spec.Desktop, tree: tree},
			rehearsals: newRehearsals(setup, place, points, program),
		},
		stopped: make(chan struct{}),
	}
	guard.thaw = s.dumper.thawGroup
	b = &boot{setup: setup, worker: worker, place: place, tree: tree, beside: beside, guard: guard, points: points, state: s.state}
	if setup.Boot == schemas.BootClean {
		return s, b, (&starter{boot: b, program: program, resolver: resolver}).start, nil
	}
	return s, b, (&restorer{boot: b, program: program, facts: facts, gate: gate, typists: typists, named: &run.named}).restore, nil
}

// raise brings the session up. After an error only its directory and its cgroups are
// left, which the worker removes, and its state file, if it may have run.
func raise(setup Setup, worker *control.Conn) (*session, error) {
	shield()
	lock, err := Lock(setup.Run, LockFile(setup.UID))
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(lock) // until undo is done: a file that isn't in use any more is closed
	s, b, bringUp, err := newSession(setup, worker)
	if err != nil {
		lock.Close()
		return nil, err
	}
	s.lock = lock
	servers, err := listen(setup)
	if err == nil {
		err = bringUp()
	}
	if err != nil {
		err = b.ranFirst(err)
		b.undo(err)
		return nil, err
	}
	s.dumper.generation, s.dumper.rehearsed, s.terminals = b.generation, b.rehearsed, b.terminals
	s.online, s.dumper.online = b.online, b.online
	s.recorder = s.tree.main.recorder()
	s.dumper.recorder = s.recorder
	s.tree.watch()
	go s.end()
	servers.serve(s)
	s.online.serve(s.clients)
	go s.resumed()
	return s, nil
}

// shield asks the out-of-memory killer to spare this process. It needs a capability
// that not every machine gives.
func shield() {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("-900"), 0)
}

// groups finds the session's cgroup and the shim's own, which is never frozen.
func groups(setup Setup) (group, beside *cgroup.Group, err error) {
	h, err := cgroup.Open(setup.Cgroup)
	if err != nil {
		return nil, nil, err
	}
	group, ok := h.Group(SessionGroup(setup.UID))
	if !ok {
		return nil, nil, fmt.Errorf("open the cgroup of session %s: it is gone", setup.Name)
	}
	beside, ok = h.Group(ShimGroup(setup.UID))
	if !ok {
		return nil, nil, fmt.Errorf("open the cgroup of session %s's shim: it is gone", setup.Name)
	}
	return group, beside, nil
}

// resumed runs the hook for how the session came back. Its failure is reported in the
// session's own output.
func (s *session) resumed() {
	script := ""
	switch s.setup.Boot {
	case schemas.BootResume, schemas.BootRollback, schemas.BootTakeover:
		script = s.setup.Spec.Hooks.OnResume
	case schemas.BootFork:
		script = s.setup.Spec.Hooks.OnFork
	}
	for _, w := range s.runner.hook(context.Background(), script) {
		s.tree.main.took(backlog.Err, []byte("diapause: "+w.Text+"\n"))
	}
}

// end waits for the session's end and writes down how it was.
func (s *session) end() {
	s.tree.reap()
	exit := s.tree.exit()
	if kills, err := s.tree.group.OOMKills(); err == nil && kills > 0 && exit.Signal == 9 {
		exit.Reason = "out of memory"
	}
	if _, killed := s.guard.state(); killed {
		exit.Reason = "its host's lease had run out, and it couldn't be frozen in time"
	}
	s.tree.finish()
	s.tree.main.drain()
	if goesDown() {
		s.recorder.close()
	} else {
		s.recorder.ended(exit, s.tree.main.shown)
	}
	s.tree.main.ended(exit)
	s.gate.end()
	if goesDown() {
		return // it didn't end by itself: what comes after finds no end, and that the machine was restarted
	}
	// If it can't be written, the worker still learns it by OrderWait.
	_ = s.state.end(exit, false)
}
