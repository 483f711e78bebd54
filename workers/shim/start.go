package shim

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/nameserver"
	"github.com/diapause/diapause/workers/network"
	"github.com/diapause/diapause/workers/shells"
	"github.com/diapause/diapause/workers/shim/control"
	"github.com/diapause/diapause/workers/shim/stage"
)

const namespaces = unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// starter starts a new session.
type starter struct {
	boot     *boot
	program  *program
	resolver []byte // the host's resolv.conf, if the session can't see it
}

// start makes the session's tree, up to its first instruction, and lets it run when
// the worker has agreed.
func (s *starter) start() error {
	b := s.boot
	b.generation = 1
	if b.setup.privateNetwork() {
		b.beginOnline()
	}
	if err := b.place.mountRoot(); err != nil {
		return err
	}
	terminals, err := b.place.mountTerminals()
	if err != nil {
		return err
	}
	terminals.Close() // the leader opens its own, inside
	files, err := s.mainFiles()
	if err != nil {
		return err
	}
	defer closeFiles(files)
	first, pid, err := s.launch(files)
	if err != nil {
		return err
	}
	defer first.Close()
	b.tree.init = pid
	if err := b.awaitOnline(); err != nil {
		return err
	}
	if err := s.prepare(first); err != nil {
		return err
	}
	if err := b.guard.hold(func() error { return s.letRun(first) }); err != nil {
		return err
	}
	if err := b.limit(); err != nil {
		return err
	}
	return b.points.at(failpoint.ShimStarted)
}

// letRun lets the command run when the worker has agreed.
func (s *starter) letRun(first *control.Conn) error {
	b := s.boot
	if err := b.points.at(failpoint.ShimMade); err != nil {
		return err
	}
	if err := b.ask(); err != nil {
		return err
	}
	if err := b.points.at(failpoint.ShimStarts); err != nil {
		return err
	}
	host, err := hostPID(b.tree.init, b.tree.leader)
	if err != nil {
		return err
	}
	if err := b.state.begin(host); err != nil {
		return err
	}
	if err := b.points.at(failpoint.ShimWritten); err != nil {
		return err
	}
	if err := b.guard.live(); err != nil {
		return err
	}
	b.ran = true
	if err := first.Send(stage.Go{}); err != nil {
		return err
	}
	return awaitInit(b.setup.Name, first, host)
}

// mainFiles makes the leader's standard descriptors and init's status pipe, in
// the order that a stage wants.
func (s *starter) mainFiles() (files []*os.File, err error) {
	b := s.boot
	status, err := b.tree.statusPipe()
	if err != nil {
		return nil, err
	}
	files = append(files, status)
	if b.setup.Spec.TTY {
		t, err := openTerminal(b.place.terminals())
		if err != nil {
			return files, err
		}
		if err := b.tree.main.useTerminal(t); err != nil {
			return files, err
		}
		size := windowOf(b.setup.Spec.Rows, b.setup.Spec.Cols)
		b.tree.main.shown = newShown(b.tree.main, size)
		if err := b.tree.main.record(b.setup); err != nil {
			return files, err
		}
		return files, b.tree.main.resize(size)
	}
	pipes, err := b.tree.main.usePipes(false)
	return append(files, pipes...), err
}

func windowOf(rows, cols uint16) attach.Size {
	if rows == 0 {
		rows = 24
	}
	if cols == 0 {
		cols = 80
	}
	return attach.Size{Rows: rows, Cols: cols}
}

// launch starts the first stage, in the session's cgroup, waiting for its Config.
func (s *starter) launch(files []*os.File) (*control.Conn, int, error) {
	b := s.boot
	ours, theirs, err := control.Pair()
	if err != nil {
		return nil, 0, err
	}
	defer theirs.Close()
	flags := uintptr(namespaces)
	if b.setup.emptyNetwork() {
		flags |= unix.CLONE_NEWNET
	}
	cmd, err := s.program.first(b.setup.Self, flags, append([]*os.File{theirs}, files...))
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		ours.Close()
		return nil, 0, fmt.Errorf("start the session's first process: %w", err)
	}
	pid := cmd.Process.Pid
	// It is reaped by its pid, like a restored one.
	if err := cmd.Process.Release(); err != nil {
		ours.Close()
		return nil, 0, fmt.Errorf("start the session's first process: %w", err)
	}
	b.tree.init = pid
	if err := b.tree.group.Add(pid); err != nil {
		ours.Close()
		return nil, 0, fmt.Errorf("put the session into its cgroup: %w", err)
	}
	return ours, pid, nil
}

// prepare has the first stage make everything and start the leader, stopped.
func (s *starter) prepare(first *control.Conn) error {
	b := s.boot
	generation, err := b.generationContent()
	if err != nil {
		return err
	}
	spec := b.setup.Spec
	config := stage.Config{
		Command: stage.Command{
			Argv: spec.Command, Dir: spec.Dir, User: spec.User,
			Env: append(append([]string(nil), spec.Env...), "DIAPAUSE_SESSION="+b.setup.Name.String()),
		},
		Root: b.place.root(), Terminals: b.place.terminals(),
		Loopback: b.setup.emptyNetwork(), Generation: generation, Resolver: s.resolver, Limits: b.setup.Limits,
	}
	if shell, ok := shells.Integrate(config.Command.Argv, config.Command.Env); ok && b.setup.Record != nil && spec.ShellIntegration != schemas.Off {
		config.Command.Argv, config.Command.Env, config.Files = shell.Argv, shell.Env, shell.Files
	}
	if b.setup.ImageRoot {
		config.Image = true
		if !b.setup.emptyNetwork() {
			config.Resolver, config.OwnResolver = stage.HostResolver(), true
		}
	}
	var files []*os.File
	if b.online != nil {
		files = append(files, b.online.network.File())
		config.Resolver, config.OwnResolver = nameserver.Resolver(network.Service), true
	}
	if b.tree.main.tty != nil {
		config.Command.Terminal = b.tree.main.tty.path()
	}
	report, err := converse(first, config, files...)
	if err != nil {
		return err
	}
	b.tree.leader, b.tree.main.pid = report.PID, report.PID
	return nil
}

// converse sends a stage its Config, with the network it is to enter, if any, and receives its Report.
func converse(c *control.Conn, config stage.Config, files ...*os.File) (stage.Report, error) {
	var report stage.Report
	if err := c.Send(config, files...); err != nil {
		return report, err
	}
	if _, err := c.Receive(&report); err != nil {
		return report, fmt.Errorf("enter the session: killed, or the session's limits are too low: %w", err)
	}
	return report, report.Err()
}

// awaitInit returns when the session's init has taken the place of the first
// stage and has let the leader go: not before can the session be captured.
func awaitInit(name schemas.Name, first *control.Conn, leader int) error {
	var report stage.Report
	if _, err := first.Receive(&report); !errors.Is(err, io.EOF) {
		return errors.Join(report.Err(), err)
	}
	const pause, limit = 100 * time.Microsecond, 10 * time.Second
	for deadline := time.Now().Add(limit); ; time.Sleep(pause) {
		// None if it has ended already.
		if tracer := strings.TrimSpace(statusLine(leader, "TracerPid:")); tracer == "0" || tracer == "" {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the init of session %s doesn't let its command run", name)
		}
	}
}
