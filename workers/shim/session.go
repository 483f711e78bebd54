package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/attach/backlog"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/cgroup"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/shim/stage"
)

// session is what the shim is there for.
type session struct {
	setup    Setup
	place    place
	facts    factsCache
	resolver []byte        // the host's resolv.conf, if the session can't see it
	group    *cgroup.Group // of the session's processes
	beside   *cgroup.Group // the shim's own, which is never frozen
	program  *program
	gate     *gate
	guard    *guard
	points   *points
	tree     *processes
	main     *command
	typists  typists // to main

	lock      *os.File   // held as long as the shim lives
	terminals *os.File   // what mountTerminals gave, of a session that was restored
	joining   sync.Mutex // one command joins the session at a time

	// work is held by whoever captures, thaws, stops or observes.
	work sync.Mutex

	mu    sync.Mutex // guards what follows
	epoch uint64
	state State

	ran        bool // of who raises it: it was let go, and may have executed something
	generation uint64
	pumps      sync.WaitGroup
	clients    atomic.Int64  // being served
	killed     atomic.Bool   // ordered to stop
	stopped    chan struct{} // closed when all is dead after that
}

func newSession(setup Setup) (*session, error) {
	h, err := cgroup.Open(setup.Cgroup)
	if err != nil {
		return nil, err
	}
	group, ok := h.Group(string(SessionGroup(setup.UID)))
	if !ok {
		return nil, fmt.Errorf("the cgroup of session %s is gone", setup.Name)
	}
	beside, ok := h.Group(string(ShimGroup(setup.UID)))
	if !ok {
		return nil, fmt.Errorf("the cgroup of session %s's shim is gone", setup.Name)
	}
	b, err := openProgram()
	if err != nil {
		return nil, err
	}
	resolver := stage.Resolver()
	p, err := newPlace(setup)
	if err != nil {
		return nil, err
	}
	s := &session{
		setup: setup, place: p, resolver: resolver, facts: openFacts(setup), group: group, beside: beside, program: b,
		gate: newGate(), tree: newProcesses(), main: newCommand(backlog.New(attach.OutputKept), false),
		epoch: setup.Epoch, stopped: make(chan struct{}),
	}
	s.points = &points{}
	s.guard = &guard{freeze: group.Freeze, thaw: group.Thaw, kill: s.kill, points: s.points}
	return s, s.points.hear(setup.Failpoints)
}

// fence notes the epoch of an order, or refuses it.
func (s *session) fence(epoch uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if epoch < s.epoch {
		return driver.ErrStale
	}
	if epoch > s.epoch {
		s.epoch = epoch
		s.state.Epoch = epoch
		return s.writeState()
	}
	return nil
}

// begin writes down that the session runs, before it does.
func (s *session) begin(pid int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = State{
		UID: s.setup.UID, Name: s.setup.Name, Epoch: s.epoch, Boot: s.setup.Boot,
		Started: time.Now(), Shim: os.Getpid(), PID: pid,
	}
	return s.writeState()
}

// writeState is called with mu held. It returns when the state would outlive a
// crash of the host: without a state the session has never run, with one it may
// have.
func (s *session) writeState() error {
	b, err := json.Marshal(s.state)
	if err != nil {
		return fmt.Errorf("encode the session's state: %w", err)
	}
	path := filepath.Join(s.setup.Run, StateFile(s.setup.UID))
	if err := replaceSynced(path, b); err != nil {
		return fmt.Errorf("write down the session's state: %w", err)
	}
	return nil
}

func replaceSynced(path string, content []byte) error {
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (s *session) snapshot() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// watch starts what goes on for as long as the session lives.
func (s *session) watch() {
	s.pumps.Go(s.tree.status.run)
	s.main.run(&s.pumps)
	for _, c := range s.tree.execs() { // of a session that was restored
		c.run(&s.pumps)
		s.release(c)
	}
	go s.end()
}

// end waits for the session's end and writes down how it was.
func (s *session) end() {
	s.tree.reap()
	exit := s.tree.exit()
	if kills, err := s.group.OOMKills(); err == nil && kills > 0 && exit.Signal == 9 {
		exit.Reason = "out of memory"
	}
	if _, killed := s.guard.state(); killed {
		exit.Reason = "its host's lease had run out, and it couldn't be frozen in time"
	}
	s.tree.finish()
	s.main.ended(exit)
	s.gate.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Exit = &exit
	s.state.PID = 0
	// If it can't be written, the worker still hears of it by its wait.
	_ = s.writeState()
}

// generationFile is what programs inside read.
type generationFile struct {
	Generation uint64       `json:"generation"`
	Boot       schemas.Boot `json:"boot"`
	Name       string       `json:"name"`
	UID        schemas.UID  `json:"uid"`
	At         time.Time    `json:"at"`
	URL        string       `json:"url,omitempty"`
}

func (s *session) generationContent() ([]byte, error) {
	b, err := json.Marshal(generationFile{s.generation, s.setup.Boot, s.setup.Name.String(), s.setup.UID, time.Now().UTC(), s.setup.URL})
	if err != nil {
		return nil, fmt.Errorf("encode the generation: %w", err)
	}
	return append(b, '\n'), nil
}

// kill ends all processes of the session. It can't be given up: a caller that
// doesn't wait any longer leaves it to finish.
func (s *session) kill(ctx context.Context) error {
	if err := s.group.Kill(ctx); err != nil {
		return fmt.Errorf("kill session %s: %w", s.setup.Name, err)
	}
	if s.tree.init == 0 {
		return nil
	}
	select {
	case <-s.main.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
