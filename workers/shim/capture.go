package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/preflight"
	"github.com/diapause/diapause/workers/shim/control"
	"github.com/diapause/diapause/workers/shim/criu/restart"
	"github.com/diapause/diapause/workers/shim/criu/rpc"
	"github.com/diapause/diapause/workers/tree"
)

// ghostLimit bounds an open file that has no name any more, in bytes.
const ghostLimit = 500 << 20

// capture freezes the session and dumps it. It leaves it frozen if the worker
// got everything, and running as before if anything failed on the way: until the
// worker heard that all is done it can't have committed an image.
func (s *session) capture(ctx context.Context, worker *control.Conn, o Order) (dump *Dump, err error) {
	s.work.Lock()
	defer s.work.Unlock()
	if err := s.alive(); err != nil {
		return nil, err
	}
	var warnings []string
	// One that an earlier capture left frozen could run no hook.
	if frozen, err := s.group.State(); err == nil && !frozen {
		warnings = s.hook(ctx, s.setup.Spec.Hooks.OnSuspend)
	}
	if err := s.gate.close(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.thaw(false))
		}
	}()
	if err := s.points.at(failpoint.ShimGated); err != nil {
		return nil, err
	}
	more, err := s.preflight(ctx)
	if err != nil {
		return nil, err
	}
	watched, err := s.watched(ctx)
	if err != nil {
		return nil, err
	}
	dump = &Dump{Warnings: append(warnings, more...)}
	var limit int64
	if dump.Way, limit, dump.WhyWay, err = s.way(o); err != nil {
		return nil, err
	}
	if dump.Way == driver.WayBuffered {
		dump.ahead, limit = limit, 0
	}
	dump.limited = limit > 0
	if err := s.freeze(ctx, dump); err != nil {
		return nil, err
	}
	if err := s.points.at(failpoint.ShimFrozen); err != nil {
		return nil, err
	}
	if err := s.place.mountScratch(limit); err != nil {
		return nil, err
	}
	defer drop(s.place.scratch())
	return dump, s.dump(worker, dump, watched)
}

func (s *session) alive() error {
	select {
	case <-s.main.done:
		return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("session %s has ended by itself", s.setup.Name)}
	default:
		return nil
	}
}

// preflight finds what can't be captured.
func (s *session) preflight(ctx context.Context) (warnings []string, err error) {
	pids, err := s.group.Pids()
	if err != nil {
		return nil, fmt.Errorf("list the processes of session %s: %w", s.setup.Name, err)
	}
	blockers, warnings, err := preflight.Check(ctx, pids, preflight.Options{
		Init: s.tree.init, External: s.holds, GhostLimit: ghostLimit,
	})
	if err != nil {
		return nil, fmt.Errorf("look for what can't be captured in session %s: %w", s.setup.Name, err)
	}
	if _, _, err := s.controlling(pids); err != nil {
		var refused *driver.Error
		if !errors.As(err, &refused) {
			return nil, err
		}
		blockers = append(blockers, refused.Blockers...)
	}
	if len(blockers) > 0 {
		return nil, &driver.Error{
			Kind: driver.Refused, Blockers: blockers,
			Text: fmt.Sprintf("session %s can't be captured", s.setup.Name),
		}
	}
	return warnings, nil
}

// watched lists the paths that programs watch by inotify and that criu can't
// find by itself, before anything is frozen, for the search may take its time.
func (s *session) watched(ctx context.Context) ([]string, error) {
	pids, err := s.group.Pids()
	if err != nil {
		return nil, fmt.Errorf("list the processes of session %s: %w", s.setup.Name, err)
	}
	watches, err := tree.Watches(ctx, pids)
	if err != nil {
		return nil, fmt.Errorf("find what session %s watches: %w", s.setup.Name, err)
	}
	var paths []string
	for _, w := range watches {
		if w.Named && w.Path != "" && !slices.Contains(paths, w.Path) {
			paths = append(paths, w.Path)
		}
	}
	return paths, nil
}

// holds reports whether the shim has the other end of what link names.
func (s *session) holds(link string) bool {
	for _, c := range s.commands() {
		if c.holds(link) {
			return true
		}
	}
	key, err := pipeKey(s.tree.status.file)
	return err == nil && key == link
}

// commands lists all that the shim started and that still runs.
func (s *session) commands() []*command {
	return append([]*command{s.main}, s.tree.execs()...)
}

// thaw undoes freeze and opens the gate. A session whose host's lease is over stays
// frozen, whatever its capture came to: another host may have it by now. ordered says that
// a worker wants it, and knows better.
func (s *session) thaw(ordered bool) error {
	defer s.gate.open()
	var errs []error
	for _, c := range s.commands() {
		errs = append(errs, c.putInput())
	}
	err := s.points.at(failpoint.ShimThaws)
	if err == nil {
		err = s.guard.release(ordered)
	}
	if err == nil {
		err = s.points.at(failpoint.ShimThawed)
	}
	switch {
	case errors.Is(err, driver.ErrNoLease):
		errs = append(errs, err)
	case err != nil:
		errs = append(errs, &driver.Error{Kind: driver.Broken, Text: fmt.Sprintf("session %s stays frozen", s.setup.Name), Err: err})
	}
	for _, c := range s.commands() {
		c.pushLate(s.gate)
	}
	return errors.Join(errs...)
}

// dump runs criu. The worker gets the files at the moment when all is dumped
// and criu still holds what only a dump has: names of files that were unlinked.
func (s *session) dump(worker *control.Conn, d *Dump, watched []string) error {
	pids, err := s.group.Pids()
	if err != nil {
		return fmt.Errorf("list the processes of session %s: %w", s.setup.Name, err)
	}
	connections, err := tree.Connections(pids)
	if err != nil {
		return fmt.Errorf("list the connections of session %s: %w", s.setup.Name, err)
	}
	closing := closedOnResume(connections)
	d.Warnings = append(d.Warnings, closing...)
	if d.Lower, err = s.lowerFiles(pids); err != nil {
		return err
	}
	options, err := s.saveMeta(pids, len(closing) == 0)
	if err != nil {
		return err
	}
	options.IrmapScanPaths = watched
	restored, err := s.helpAttach()
	if err != nil {
		return err
	}
	start := time.Now()
	err = s.guard.hold(func() error {
		return s.runDump(worker, options, d, func() error {
			d.DumpTook = time.Since(start)
			d.Held = s.place.held()
			if err := s.repeatCalls(); err != nil {
				return err
			}
			return s.handOver(worker, d)
		})
	})
	err = errors.Join(err, restored())
	if err != nil {
		return s.explainDump(err)
	}
	s.facts.save()
	if frozen, err := s.group.State(); err != nil || !frozen {
		return fmt.Errorf("session %s didn't stay frozen through its dump (%v)", s.setup.Name, err)
	}
	return s.points.at(failpoint.ShimLetGo)
}

// closedOnResume says which connections won't survive, a line for each. criu can
// keep all of them or none: connections within the session are kept where there
// are no others.
func closedOnResume(all []tree.Connection) []string {
	var lines []string
	inside := 0
	for _, c := range all {
		switch {
		case c.Pending:
			// Never accepted: its client sees a reset, the session nothing.
		case c.Inside:
			inside++
		default:
			lines = append(lines, fmt.Sprintf("the TCP connection %s is with the outside and will be closed on resume", c))
		}
	}
	if len(lines) > 0 && inside > 0 {
		lines = append(lines, fmt.Sprintf("%d ends of TCP connections within the session will be closed too, since there are connections with the outside", inside))
	}
	return lines
}

// runDump dumps, again if the failure is one of the moment, or if the image
// turned out not to fit into its memory. It can't begin again once anything has
// gone to the worker.
func (s *session) runDump(worker *control.Conn, o rpc.Options, d *Dump, dumped func() error) error {
	const attempts = 3
	for i := 1; ; i++ {
		var passed int64
		var err error
		if d.Way != driver.WayMemory {
			passed, err = s.dumpStreamed(worker, o, d.ahead, dumped)
		} else {
			err = s.dumpToMemory(o, dumped)
		}
		switch {
		case err == nil || passed > 0 || i == attempts:
			return err
		case d.Way == driver.WayMemory && d.limited && s.place.full():
			d.Way, d.WhyWay = driver.WayStream, "it turned out not to fit into the memory that is free"
			if err := s.place.widen(); err != nil {
				return err
			}
		case !passing(s.place.images()):
			return err
		}
		if err := s.emptyImages(); err != nil {
			return err
		}
	}
}

func (s *session) dumpToMemory(o rpc.Options, dumped func() error) error {
	p, err := rpc.Start(s.setup.Criu, func(int) error { return nil })
	if err != nil {
		return err
	}
	return p.Dump(o, func(n rpc.Notice) error {
		if n.Step == rpc.PostDump {
			return dumped()
		}
		return nil
	})
}

func (s *session) emptyImages() error {
	if err := os.RemoveAll(s.place.images()); err != nil {
		return fmt.Errorf("empty the scratch directory: %w", err)
	}
	if err := os.Mkdir(s.place.images(), 0o700); err != nil {
		return fmt.Errorf("empty the scratch directory: %w", err)
	}
	return nil
}

// repeatCalls has threads that wait in a system call wait on after a restore.
func (s *session) repeatCalls() error {
	log, err := os.ReadFile(filepath.Join(s.place.images(), logName))
	if err != nil {
		return fmt.Errorf("read criu's log: %w", err)
	}
	for _, tid := range restart.Interrupted(log) {
		memory := func(before uint64, size int) ([]byte, error) {
			f, err := os.Open(fmt.Sprintf("/proc/%d/mem", tid))
			if err != nil {
				return nil, err
			}
			defer f.Close()
			b := make([]byte, size)
			_, err = f.ReadAt(b, int64(before)-int64(size))
			return b, err
		}
		if err := restart.Again(s.place.images(), within(tid), memory); err != nil {
			return err
		}
	}
	return nil
}

// handOver gives the worker the directories of the image, of the upper layer
// and of the session's root, and waits until it has read what it must.
func (s *session) handOver(worker *control.Conn, d *Dump) error {
	if err := s.points.at(failpoint.ShimDumped); err != nil {
		return err
	}
	var files []*os.File
	defer func() { closeFiles(files) }()
	for _, dir := range []string{s.place.scratch(), s.place.upper(), s.place.root()} {
		f, err := os.Open(dir)
		if err != nil {
			return fmt.Errorf("open what was captured: %w", err)
		}
		files = append(files, f)
	}
	if err := worker.Send(Message{Phase: PhaseDumped, Dump: d}, files...); err != nil {
		return err
	}
	var a Answer
	if _, err := worker.Receive(&a); err != nil {
		return fmt.Errorf("the worker is gone: %w", err)
	}
	if !a.Go {
		return errors.New("the worker gave the capture up")
	}
	return s.points.at(failpoint.ShimRead)
}

// saveMeta writes what the image must hold beside criu's files, and returns the
// options for the dump.
func (s *session) saveMeta(pids []int, keepTCP bool) (rpc.Options, error) {
	o := rpc.Options{
		ImagesDir: s.place.images(), PID: s.tree.init, LogLevel: 2, LogFile: logName,
		LeaveRunning: true, FileLocks: true, LinkRemap: true, GhostLimit: ghostLimit,
		FreezeCgroup: s.group.FreezerPath(), EmptyNetwork: s.emptyNetwork(),
		External: []string{"mnt[/]:" + rootKey, "mnt[/dev/pts]:" + terminalsKey},
	}
	o.TCPEstablished, o.TCPClose = keepTCP, !keepTCP
	m := meta{Generation: s.generation, Leader: s.tree.leader, TCPEstablished: o.TCPEstablished, EmptyNetwork: o.EmptyNetwork}
	m.Typists, m.Forgot = s.typists.save()
	var err error
	if m.Status, err = pipeKey(s.tree.status.file); err != nil {
		return o, err
	}
	ctty, owner, err := s.controlling(pids)
	if err != nil {
		return o, err
	}
	for i, c := range s.commands() {
		saved, err := c.save(s.place.meta(), i)
		if err != nil {
			return o, err
		}
		if c == owner {
			saved.Terminal.Controlling = ctty
			o.External = append(o.External, ctty)
		}
		m.Commands = append(m.Commands, saved)
		if saved.Terminal != nil {
			o.External = append(o.External, saved.Terminal.Key)
		}
	}
	b, err := json.Marshal(m)
	if err != nil {
		return o, fmt.Errorf("encode the session's state: %w", err)
	}
	if err := os.WriteFile(filepath.Join(s.place.meta(), metaName), b, 0o600); err != nil {
		return o, fmt.Errorf("save the session's state: %w", err)
	}
	return o, nil
}

// drainPipe takes out what is queued in the pipe whose write end f is.
func drainPipe(f *os.File) ([]byte, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var all []byte
	ctlErr := raw.Control(func(fd uintptr) {
		var r int
		r, err = unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return
		}
		defer unix.Close(r)
		buf := make([]byte, 64<<10)
		for {
			n, readErr := unix.Read(r, buf)
			if n <= 0 && readErr != unix.EINTR {
				return
			}
			all = append(all, buf[:max(n, 0)]...)
		}
	})
	return all, errors.Join(err, ctlErr)
}
