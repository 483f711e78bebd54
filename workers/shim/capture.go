package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/cgroup"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/preflight"
	"github.com/diapause/diapause/workers/shim/control"
	"github.com/diapause/diapause/workers/shim/criu/core"
	"github.com/diapause/diapause/workers/shim/criu/mends"
	"github.com/diapause/diapause/workers/shim/criu/rpc"
	"github.com/diapause/diapause/workers/tree"
)

// ghostLimit bounds an open file that has no name any more, in bytes.
const ghostLimit = 500 << 20

// dumper captures the session while it runs, and thaws it.
type dumper struct {
	name           schemas.Name
	criu           []string // criu's command line
	onSuspend      string   // the hook
	emptyNetwork   bool
	privateNetwork bool
	filter         string // digest of the session's filter of system calls
	networkAdmin   bool   // the session may change its network
	online         *online
	generation     uint64

	place   place
	facts   factsCache
	group   *cgroup.Group // of the session's processes
	beside  *cgroup.Group // the shim's own, which is never frozen
	gate    *gate
	guard   *guard
	points  *points
	tree    *processes
	typists *typists
	runner  *runner

	recorder *recorder // may be nil
	picture  picture

	rehearsals *rehearsals
	rehearsed  string // digest of what the session had when it was rehearsed last
}

// capture freezes the session and dumps it. The session stays frozen if the worker got
// everything. After a failure it runs as before: a worker commits no image before it
// heard that all is done. Callers hold the session's work.
func (d *dumper) capture(ctx context.Context, worker *control.Conn, o Order) (dump *Dump, err error) {
	if err := d.tree.alive(); err != nil {
		return nil, err
	}
	laps := driver.NewLaps(time.Now())
	warnings := append(d.place.own.warnings(), d.prepare(ctx, laps)...)
	spills := d.recorder.sealing()(stuckWait) // while it runs: what is left then is little
	if err := d.gate.close(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.thaw(false))
		}
	}()
	if err := d.points.at(failpoint.ShimGated); err != nil {
		return nil, err
	}
	opened := tree.NewOpened() // before the freeze: what changes meanwhile is looked at again
	more, err := d.preflight(ctx, opened)
	if err != nil {
		return nil, err
	}
	laps.Mark("check")
	watched, err := d.tree.watched(ctx, opened)
	if err != nil {
		return nil, err
	}
	dump = &Dump{Warnings: append(warnings, more...), laps: laps, spills: spills}
	var limit int64
	if dump.Way, limit, dump.WhyWay, err = d.way(o); err != nil {
		return nil, err
	}
	if dump.Way == driver.WayBuffered {
		dump.ahead, limit = limit, 0
	}
	dump.limited = limit > 0
	// What is written out now needn't be when the session stands still.
	if err := d.place.own.sync(); err != nil {
		return nil, err
	}
	laps.Mark("plan")
	if err := d.points.at(failpoint.ShimLooked); err != nil {
		return nil, err
	}
	if err := d.freeze(ctx, dump); err != nil {
		return nil, err
	}
	if err := d.online.hold(); err != nil {
		return nil, err
	}
	laps.Mark("freeze")
	if err := d.points.at(failpoint.ShimFrozen); err != nil {
		return nil, err
	}
	if err := d.lookBefore(dump, o.Rehearse); err != nil {
		return nil, err
	}
	if err := d.place.mountScratch(limit); err != nil {
		return nil, err
	}
	defer drop(d.place.scratch())
	return dump, d.dump(worker, dump, watched)
}

// prepare has the session itself do what is to be done before it is frozen: its hook runs, and its desktop is looked at. One that an
// earlier capture left frozen can't.
func (d *dumper) prepare(ctx context.Context, laps *driver.Laps) (warnings []schemas.Warning) {
	frozen, err := d.group.State()
	awake := err == nil && !frozen
	if awake {
		warnings = d.runner.hook(ctx, d.onSuspend)
	}
	laps.Mark("hook")
	if awake {
		warnings = append(warnings, d.picture.take(ctx, laps)...)
	}
	return warnings
}

// preflight finds what can't be captured.
func (d *dumper) preflight(ctx context.Context, opened *tree.Opened) (warnings []schemas.Warning, err error) {
	pids, err := d.tree.pids()
	if err != nil {
		return nil, err
	}
	blockers, warnings, err := preflight.Check(ctx, pids, preflight.Options{
		Init: d.tree.init, External: d.tree.holding(), GhostLimit: ghostLimit, Opened: opened,
		Lacks: mends.Missing(d.criu),
	})
	if err != nil {
		return nil, fmt.Errorf("look for what can't be captured in session %s: %w", d.name, err)
	}
	if _, _, err := d.tree.controlling(pids, opened); err != nil {
		var refused *driver.Error
		if !errors.As(err, &refused) {
			return nil, err
		}
		blockers = append(blockers, refused.Blockers...)
	}
	if len(blockers) > 0 {
		return nil, &driver.Error{
			Kind: driver.Refused, Blockers: blockers,
			Text: fmt.Sprintf("session %s can't be captured", d.name),
		}
	}
	return append(warnings, d.networkChanges()...), nil
}

// thaw undoes freeze and opens the gate. A session whose host's lease is over stays
// frozen, even if its capture failed: another host may have it by now. ordered says that
// a worker asks for it, which has made sure that no other host has.
func (d *dumper) thaw(ordered bool) error {
	defer d.gate.open()
	var errs []error
	for _, c := range d.tree.commands() {
		errs = append(errs, c.putInput())
	}
	err := d.points.at(failpoint.ShimThaws)
	if err == nil {
		err = d.guard.release(ordered)
	}
	if err == nil {
		err = d.points.at(failpoint.ShimThawed)
	}
	switch {
	case errors.Is(err, driver.ErrNoLease):
		errs = append(errs, err)
	case err != nil:
		errs = append(errs, &driver.Error{Kind: driver.Broken, Text: fmt.Sprintf("session %s stays frozen", d.name), Err: err})
	}
	for _, c := range d.tree.commands() {
		c.pushLate(d.gate)
	}
	return errors.Join(errs...)
}

// thawGroup has the session's processes run. Its connections move first: a process that runs while they are
// held would wait for nothing.
func (d *dumper) thawGroup() error {
	if err := d.online.release(); err != nil {
		return err
	}
	return d.group.Thaw()
}

// dump runs criu. The worker gets the files at the moment when all is dumped
// and criu still holds what only a dump has: names of files that were unlinked.
func (d *dumper) dump(worker *control.Conn, dump *Dump, watched []tree.Watch) (err error) {
	pids, err := d.tree.pids()
	if err != nil {
		return err
	}
	opened := tree.NewOpened() // nothing changes while it is frozen
	connections, err := opened.Connections(pids)
	if err != nil {
		return fmt.Errorf("list the connections of session %s: %w", d.name, err)
	}
	near, err := d.tree.stillWatched(pids, opened, watched)
	if err != nil {
		return err
	}
	closing := closedOnResume(connections, d.privateNetwork)
	dump.Warnings = append(dump.Warnings, closing...)
	if dump.Lower, err = lowerFiles(d.name, d.place.own.upper(), pids, opened); err != nil {
		return err
	}
	dump.Base = d.place.base
	options, err := d.saveMeta(pids, opened, d.privateNetwork || len(closing) == 0, dump.digest)
	if err != nil {
		return err
	}
	options.IrmapScanPaths = near
	sealed := d.recorder.sealing()
	if dump.Rehearses {
		dump.before.NoteWatched(watched)
		dump.rehearsal = d.rehearsals.begin(d.tree.init, dump.before)
		defer func() { err = errors.Join(err, dump.rehearsal.end()) }()
	}
	restored, err := helpAttach(d.name, d.group, d.beside)
	if err != nil {
		return err
	}
	dump.laps.Mark("list")
	start := time.Now()
	err = d.guard.hold(func() error {
		return d.runDump(worker, options, dump, func() error {
			dump.DumpTook = time.Since(start)
			dump.Held = d.place.held()
			if err := d.repeatCalls(); err != nil {
				return err
			}
			dump.laps.Mark("capture")
			dump.Parts = dump.laps.Parts()
			if dump.spills {
				sealed(frozenWait)
			}
			return d.handOver(worker, dump)
		})
	})
	err = errors.Join(err, restored())
	if err != nil {
		return explain(d.place.images(), d.name, "captured", err)
	}
	d.facts.save()
	if err := d.staysFrozen(); err != nil {
		return err
	}
	return d.points.at(failpoint.ShimLetGo)
}

// runDump dumps the session, again if the failure is transient or if the image didn't
// fit into its memory, but not after the worker got a part of it.
func (d *dumper) runDump(worker *control.Conn, o rpc.Options, dump *Dump, dumped func() error) error {
	const attempts = 3
	for i := 1; ; i++ {
		var passed int64
		var err error
		if dump.Way != driver.WayMemory {
			passed, err = d.dumpStreamed(worker, o, dump, dumped)
		} else {
			err = d.dumpToMemory(o, dumped)
		}
		switch {
		case err == nil || passed > 0 || i == attempts:
			return err
		case dump.Way == driver.WayMemory && dump.limited && d.place.full():
			dump.Way, dump.WhyWay = driver.WayStream, "it turned out not to fit into the memory that is free"
			if err := d.place.widen(); err != nil {
				return err
			}
		case !passing(d.place.images()):
			return err
		}
		if err := d.emptyImages(); err != nil {
			return err
		}
	}
}

func (d *dumper) dumpToMemory(o rpc.Options, dumped func() error) error {
	p, err := rpc.Start(d.criu, rpc.Here)
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

func (d *dumper) emptyImages() error {
	if err := os.RemoveAll(d.place.images()); err != nil {
		return fmt.Errorf("empty the scratch directory: %w", err)
	}
	if err := os.Mkdir(d.place.images(), 0o700); err != nil {
		return fmt.Errorf("empty the scratch directory: %w", err)
	}
	return nil
}

// repeatCalls changes the image so that threads that wait in a system call wait on after a restore.
func (d *dumper) repeatCalls() error {
	log, err := os.ReadFile(filepath.Join(d.place.images(), logName))
	if err != nil {
		return fmt.Errorf("read criu's log: %w", err)
	}
	for _, tid := range core.Interrupted(log) {
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
		if err := core.Again(d.place.images(), within(tid), uint64(d.tree.waits[tid].number), memory); err != nil {
			return err
		}
	}
	return nil
}

// handOver gives the worker the directories of the image, of the upper layer
// and of the session's root, and waits until it has read what it must.
func (d *dumper) handOver(worker *control.Conn, dump *Dump) error {
	if err := d.points.at(failpoint.ShimDumped); err != nil {
		return err
	}
	var files []*os.File
	defer func() { closeFiles(files) }()
	own, kind, err := d.place.own.open()
	if err != nil {
		return err
	}
	files, dump.Layer = append(files, own), kind
	for _, dir := range []string{d.place.scratch(), d.place.root()} {
		f, err := os.Open(dir)
		if err != nil {
			return fmt.Errorf("open what was captured: %w", err)
		}
		files = append(files, f)
	}
	files[0], files[1] = files[1], files[0]
	if err := worker.Send(Message{Phase: PhaseDumped, Dump: dump}, files...); err != nil {
		return err
	}
	if err := d.awaitWorker(worker, dump); err != nil {
		return err
	}
	return d.points.at(failpoint.ShimRead)
}

// saveMeta writes what the image must hold beside criu's files, and returns the
// options for the dump.
func (d *dumper) saveMeta(pids []int, opened *tree.Opened, keepTCP bool, rehearsed string) (rpc.Options, error) {
	o := rpc.Options{
		ImagesDir: d.place.images(), PID: d.tree.init, LogLevel: 2, LogFile: logName,
		LeaveRunning: true, FileLocks: true, LinkRemap: true, GhostLimit: ghostLimit,
		FreezeCgroup: d.group.FreezerPath(), EmptyNetwork: d.emptyNetwork,
		External: []string{"mnt[/]:" + rootKey, "mnt[/dev/pts]:" + terminalsKey},
	}
	o.TCPEstablished, o.TCPClose = keepTCP, !keepTCP
	m := meta{Generation: d.generation, Leader: d.tree.leader, TCPEstablished: o.TCPEstablished, EmptyNetwork: o.EmptyNetwork, PrivateNetwork: d.privateNetwork, Rehearsed: rehearsed, Filter: d.filter}
	m.Typists, m.Forgot = d.typists.save()
	var err error
	if m.CopiedUp, err = copiedUp(d.name, d.place.own, pids, opened); err != nil {
		return o, err
	}
	if d.privateNetwork {
		external, err := externalNetwork(d.tree.init)
		if err != nil {
			return o, err
		}
		o.External = append(o.External, external)
	}
	if err := d.picture.save(d.place.meta()); err != nil {
		return o, err
	}
	if m.Status, err = pipeKey(d.tree.status.file); err != nil {
		return o, err
	}
	if m.Ended, err = d.runner.named.save(d.place.meta()); err != nil {
		return o, err
	}
	ctty, owner, err := d.tree.controlling(pids, opened)
	if err != nil {
		return o, err
	}
	for i, c := range d.tree.commands() {
		saved, err := c.save(d.place.meta(), i)
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
	if err := os.WriteFile(filepath.Join(d.place.meta(), metaName), b, 0o600); err != nil {
		return o, fmt.Errorf("save the session's state: %w", err)
	}
	return o, nil
}

// blockers tells what can't be captured now.
func (d *dumper) blockers(ctx context.Context) (Message, error) {
	_, err := d.preflight(ctx, tree.NewOpened())
	var refused *driver.Error
	if errors.As(err, &refused) && len(refused.Blockers) > 0 {
		return Message{Phase: PhaseDone, Blockers: refused.Blockers}, nil
	}
	return Message{Phase: PhaseDone}, err
}
