package shim

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/attach/backlog"
	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/shim/criu/core"
	"github.com/diapause/diapause/workers/shim/criu/rpc"
	"github.com/diapause/diapause/workers/shim/stage"
	"github.com/diapause/diapause/workers/thread"
	"github.com/diapause/diapause/workers/treecopy"
)

// restorer restores a session from an image.
type restorer struct {
	boot    *boot
	program *program
	facts   factsCache
	gate    *gate
	typists *typists
	named   *named
	bare    bool // what the shim had of commands isn't needed: it is a rehearsal
}

// initPID is the pid of init within the session.
const initPID = 1

// restore restores the tree from the image that the worker puts into memory, up to its
// next instruction, and lets it run when the worker has agreed.
func (r *restorer) restore() error {
	b := r.boot
	if b.setup.privateNetwork() {
		b.beginOnline() // it takes as long as the image
	}
	served, err := r.receiveImage()
	if err != nil {
		return err
	}
	defer drop(b.place.scratch())
	if err := core.EndWithParent(b.place.images(), initPID); err != nil {
		return err
	}
	if b.setup.Boot == schemas.BootTrial {
		if err := stage.LoopbackUp(); err != nil {
			return err
		}
	}
	m, err := readMeta(b.place.meta())
	if err != nil {
		return err
	}
	if err := b.place.fitMounts(); err != nil {
		return err
	}
	if err := core.Limit(b.place.images(), b.setup.Limits, m.Filter); err != nil {
		return err
	}
	b.generation, b.rehearsed = m.Generation+1, m.Rehearsed
	b.fitOnline(m.PrivateNetwork)
	r.typists.load(m.Typists, m.Forgot)
	if err := b.place.own.mountGiven(); err != nil {
		return err
	}
	if err := b.place.mountRoot(); err != nil {
		return err
	}
	if err := b.place.makeMountPoints(); err != nil {
		return fmt.Errorf("make the mount points of session %s: %w", b.setup.Name, err)
	}
	b.warnings = renumbered(b.place.root(), m.CopiedUp)
	if err := r.loadNamed(m); err != nil {
		return err
	}
	drop(b.place.middle()) // the overlay holds it
	// Kept: without it the terminals would lose their names.
	if b.terminals, err = b.place.mountTerminals(); err != nil {
		return err
	}
	in := &inheritance{terminals: b.terminals}
	defer in.close()
	if err := b.awaitOnline(); err != nil {
		return err
	}
	if err := errors.Join(r.reconnect(m, in), b.online.inherit(in)); err != nil {
		return err
	}
	if err := b.points.at(failpoint.ShimFilled); err != nil {
		return err
	}
	return r.runRestore(m, in, served)
}

// receiveImage waits until the worker has filled the image's directory and that
// of the middle layer, both in memory, and the private layer. served are criu's images that the worker
// hands out when criu asks for them.
func (r *restorer) receiveImage() (served []string, err error) {
	b := r.boot
	if err := b.place.mountScratch(0); err != nil {
		return nil, err
	}
	b.place.largePages()
	if err := mountMemory(b.place.middle(), 0); err != nil {
		return nil, err
	}
	if err := os.Chmod(b.place.middle(), 0o755); err != nil {
		return nil, fmt.Errorf("make the middle layer: %w", err)
	}
	var files []*os.File
	defer func() { closeFiles(files) }()
	for _, dir := range []string{b.place.scratch(), b.place.middle()} {
		f, err := os.Open(dir)
		if err != nil {
			return nil, fmt.Errorf("open scratch memory: %w", err)
		}
		files = append(files, f)
	}
	own, err := b.place.own.target()
	if err != nil {
		return nil, err
	}
	files = append(files, own)
	if err := b.worker.Send(Message{Phase: PhaseScratch}, files...); err != nil {
		return nil, err
	}
	var a Answer
	if _, err := b.worker.Receive(&a); err != nil {
		return nil, fmt.Errorf("the worker is gone: %w", err)
	}
	if !a.Go {
		return nil, errors.New("the worker cancelled the restore")
	}
	return a.Served, nil
}

// loadNamed has the clients of commands find them again, if the session goes on from where it
// was suspended: what is copied or taken back has other ones.
func (r *restorer) loadNamed(m meta) error {
	if r.boot.setup.Boot != schemas.BootResume {
		return nil
	}
	return r.named.load(r.boot.place.meta(), m.Ended)
}

// inheritance is what criu gets in place of what the shim held when the session
// was captured.
type inheritance struct {
	terminals *os.File // where to open terminals
	files     []*os.File
	list      []rpc.Inherited
}

// firstInherited is the descriptor that criu has for the first file that
// rpc.Start is given.
const firstInherited = 4

func (in *inheritance) add(key string, f *os.File) {
	in.list = append(in.list, rpc.Inherited{Key: key, FD: firstInherited + len(in.files)})
	in.files = append(in.files, f)
}

func (in *inheritance) close() { closeFiles(in.files) }

// reconnect makes the shim's ends of all terminals and pipes, and the commands they belong to.
func (r *restorer) reconnect(m meta, in *inheritance) error {
	b := r.boot
	status, err := b.tree.statusPipe()
	if err != nil {
		return err
	}
	in.add(m.Status, status)
	b.tree.leader = m.Leader
	var indices []int
	for _, c := range m.Commands {
		if c.Terminal != nil {
			indices = append(indices, c.Terminal.Index)
		}
	}
	terminals, err := openTerminals(b.place.terminals(), indices)
	if err != nil {
		return err
	}
	for i, saved := range m.Commands {
		c, err := r.loadCommand(saved, i > 0)
		if err != nil {
			return err
		}
		if err := c.reconnect(saved, terminals, in); err != nil {
			return err
		}
		if i == 0 {
			if err := c.record(b.setup); err != nil {
				return err
			}
			b.tree.main = c
		} else {
			b.tree.follow(c)
			if c.name != "" && b.setup.Boot == schemas.BootResume {
				r.named.add(c)
			}
		}
	}
	return nil
}

func (r *restorer) loadCommand(saved savedCommand, exec bool) (*command, error) {
	if r.bare {
		c := newCommand(backlog.New(0), exec)
		c.pid = saved.PID
		return c, nil
	}
	return saved.load(r.boot.place.meta(), exec)
}

func (c *command) reconnect(saved savedCommand, terminals map[int]*terminal, in *inheritance) error {
	if saved.Terminal != nil {
		t := terminals[saved.Terminal.Index]
		for _, key := range []string{saved.Terminal.Key, saved.Terminal.Controlling} {
			if key == "" {
				continue
			}
			slave, err := t.reopen(in.terminals)
			if err != nil {
				return err
			}
			in.add(key, slave)
		}
		return c.useTerminal(t)
	}
	theirs, err := c.usePipes(saved.Stdin != "")
	if err != nil {
		return err
	}
	if saved.Stdin != "" {
		in.add(saved.Stdin, theirs[0])
		theirs = theirs[1:]
	}
	if len(saved.Pipes) != len(theirs) {
		closeFiles(theirs)
		return fmt.Errorf("the image has %d output pipes for a command, want %d", len(saved.Pipes), len(theirs))
	}
	for i, key := range saved.Pipes {
		in.add(key, theirs[i])
	}
	return nil
}

func (r *restorer) runRestore(m meta, in *inheritance, served []string) error {
	b := r.boot
	u := &heldTree{boot: b}
	ended := make(chan struct{})
	defer close(ended)
	steps := func(p criuProcess, n rpc.Notice) error {
		switch n.Step {
		case rpc.SetupNamespaces:
			if m.EmptyNetwork {
				return loopbackOf(n.PID)
			}
		case rpc.PostRestore:
			if err := r.restored(u, p, n.PID); err != nil {
				return err
			}
			go u.watch(p, ended)
		case rpc.PreResume:
			u.hold(p)
		}
		return nil
	}
	err := b.guard.hold(func() error {
		if len(served) > 0 {
			return r.restoreStreamed(r.restoreOptions(m, in), in.files, served, steps)
		}
		return r.restoreFromMemory(r.restoreOptions(m, in), in.files, steps)
	})
	if err != nil {
		return u.failed(err, r.explain(err))
	}
	r.facts.save()
	if err := u.thaw(); err != nil {
		return err
	}
	return b.points.at(failpoint.ShimRuns)
}

// restored has the worker agree when all is restored, before criu is told to go on.
func (r *restorer) restored(u *heldTree, p criuProcess, init int) error {
	u.restored(p, init)
	// criu isn't given up before: its number could be another's then.
	defer func() { _ = u.outside() }()
	if err := r.boot.online.restored(r.boot.setup); err != nil {
		return err
	}
	if err := r.resume(); err != nil {
		return err
	}
	return u.goOn(p)
}

func (r *restorer) explain(err error) error {
	images := r.boot.place.images()
	err = explain(images, r.boot.setup.Name, "restored", err)
	var e *driver.Error
	if errors.As(err, &e) && e.Kind == driver.Transient && !errors.Is(err, ErrPassing) {
		v := judge(criuErrors(images))
		e.Kind, e.Code, e.Engine = v.kind, v.code, v.code != ""
	}
	return err
}

// restoreFromMemory runs criu in the session's cgroups: what it forks is born
// there and stays.
func (r *restorer) restoreFromMemory(o rpc.Options, files []*os.File, steps func(criuProcess, rpc.Notice) error) error {
	p, err := rpc.Start(r.boot.setup.Criu, r.program.apart(r.boot.tree.group), files...)
	if err != nil {
		return err
	}
	_, err = p.Restore(o, func(n rpc.Notice) error { return steps(p, n) })
	return err
}

func (r *restorer) restoreOptions(m meta, in *inheritance) rpc.Options {
	b := r.boot
	return rpc.Options{
		ImagesDir: b.place.images(), LogLevel: 2, LogFile: logName,
		Root: b.place.root(), RestoreSibling: true, FileLocks: true, LinkRemap: true,
		TCPEstablished: m.TCPEstablished, TCPClose: !m.TCPEstablished, EmptyNetwork: m.EmptyNetwork,
		External: []string{
			"mnt[" + rootKey + "]:" + b.place.root(),
			"mnt[" + terminalsKey + "]:" + b.place.terminals(),
		},
		Inherit: in.list,
	}
}

// resume is called when all is restored and nothing has run: its error makes
// criu destroy what it restored.
func (r *restorer) resume() error {
	b := r.boot
	if err := r.writeGeneration(); err != nil {
		return err
	}
	for _, c := range b.tree.commands() {
		if err := c.putInput(); err != nil {
			return err
		}
	}
	if err := b.points.at(failpoint.ShimRestored); err != nil {
		return err
	}
	if err := b.ask(); err != nil {
		return err
	}
	if err := b.points.at(failpoint.ShimBegins); err != nil {
		return err
	}
	// The host's pid is only shown: not finding it is no failure.
	host, _ := hostPID(b.tree.init, b.tree.leader)
	for _, c := range b.tree.commands() {
		c.pushLate(r.gate)
	}
	if err := b.state.begin(host); err != nil {
		return err
	}
	if err := b.points.at(failpoint.ShimNoted); err != nil {
		return err
	}
	return b.guard.live()
}

// writeGeneration replaces the generation file inside the session.
func (r *restorer) writeGeneration() error {
	b := r.boot
	content, err := b.generationContent()
	if err != nil {
		return err
	}
	root, err := sessionRoot(b.tree.init)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := treecopy.ReplaceFile(root, stage.GenerationPath, content); err != nil {
		return fmt.Errorf("write the generation file of session %s: %w", b.setup.Name, err)
	}
	return nil
}

// loopbackOf brings lo up in the network namespace of a process.
func loopbackOf(pid int) error {
	return thread.Discard(func() error {
		fd, err := unix.PidfdOpen(pid, 0)
		if err == nil {
			defer unix.Close(fd)
			err = unix.Setns(fd, unix.CLONE_NEWNET)
		}
		if err != nil {
			return fmt.Errorf("enter the session's network: %w", err)
		}
		return stage.LoopbackUp()
	})
}
