package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/attach/backlog"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/confine/limits"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/shim/control"
	"github.com/diapause/diapause/workers/shim/stage"
	"github.com/diapause/diapause/workers/shim/tiny"
)

// runner starts more commands in the session, beside its leader.
type runner struct {
	name      schemas.Name
	spec      schemas.Spec
	limits    limits.Limits
	self      []string // as in Setup
	terminals string   // the session's devpts
	program   *program
	gate      *gate
	tree      *processes

	named   named
	joining sync.Mutex // one command joins the session at a time
}

// exec starts one more command in the session. It waits while the session is
// captured, and no capture starts before the command is a child of init. The
// caller reads its log, and calls close when it has ended.
func (r *runner) exec(ctx context.Context, req attach.Request) (*command, error) {
	if err := r.gate.enter(ctx); err != nil {
		return nil, err
	}
	defer r.gate.leave()
	return r.execInside(req)
}

// execInside is exec for callers that are inside the gate, or have closed it.
func (r *runner) execInside(req attach.Request) (*command, error) {
	c := newCommand(backlog.New(attach.OutputKept), true)
	if c.name = req.Typist; c.name != "" && r.named.find(c.name) != nil {
		return nil, fmt.Errorf("session %s has a command of that name already", r.name)
	}
	theirs, err := r.connect(c, req)
	defer closeFiles(theirs)
	if err != nil {
		c.close()
		return nil, err
	}
	// Reports on older processes with the same pid are dropped. So that no report on
	// another new command is lost by that, commands join one at a time.
	r.joining.Lock()
	defer r.joining.Unlock()
	r.tree.forget()
	report, err := r.join(r.commandOf(c, req), theirs)
	if err != nil {
		c.close()
		return nil, err
	}
	c.pid = report.PID
	c.run(&r.tree.pumps)
	r.tree.follow(c)
	go r.unreported(c)
	if c.name != "" {
		r.named.add(c)
	}
	return c, nil
}

func (r *runner) connect(c *command, req attach.Request) ([]*os.File, error) {
	if !req.TTY {
		return c.usePipes(req.Stdin)
	}
	t, err := openTerminal(r.terminals)
	if err != nil {
		return nil, err
	}
	if err := c.useTerminal(t); err != nil {
		t.close()
		return nil, err
	}
	return nil, t.resize(windowOf(req.Rows, req.Cols))
}

// commandOf makes the command of a request: what that leaves out is the session's.
func (r *runner) commandOf(c *command, req attach.Request) stage.Command {
	spec := r.spec
	cmd := stage.Command{Argv: req.Argv, Env: req.Env, Dir: req.Dir, User: req.User, Stdin: !req.TTY && req.Stdin}
	if len(cmd.Env) == 0 {
		cmd.Env = append(append([]string(nil), spec.Env...), "DIAPAUSE_SESSION="+r.name.String())
	}
	if cmd.Dir == "" {
		cmd.Dir = spec.Dir
	}
	if cmd.User == "" {
		cmd.User = spec.User
	}
	if c.tty != nil {
		cmd.Terminal = c.tty.path()
	}
	return cmd
}

// join starts a command in the session through a stage. The stage ends before join
// returns: the command is then a child of init.
func (r *runner) join(c stage.Command, files []*os.File) (stage.Report, error) {
	ours, theirs, err := control.Pair()
	if err != nil {
		return stage.Report{}, err
	}
	defer ours.Close()
	fd, err := unix.PidfdOpen(r.tree.init, 0)
	if err != nil {
		theirs.Close()
		return stage.Report{}, fmt.Errorf("enter session %s: %w", r.name, err)
	}
	door := os.NewFile(uintptr(fd), "session")
	waiting, gate, err := os.Pipe()
	if err != nil {
		theirs.Close()
		door.Close()
		return stage.Report{}, fmt.Errorf("enter session %s: %w", r.name, err)
	}
	cmd, err := r.program.join(r.self, stage.Entering(r.limits.Capabilities), waiting, append([]*os.File{theirs, door}, files...))
	if err == nil {
		err = cmd.Start()
	}
	closeFiles([]*os.File{theirs, door, waiting})
	if err != nil {
		gate.Close()
		return stage.Report{}, fmt.Errorf("enter session %s: %w", r.name, err)
	}
	report, err := r.admit(ours, gate, cmd.Process.Pid, stage.Config{Command: c, Limits: limits.Limits{Capabilities: r.limits.Capabilities}})
	gate.Close()
	ours.Close()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		// Frozen, it can't even be killed, but dies before anything else.
		_ = cmd.Process.Kill()
		go func() { _ = cmd.Wait() }()
		return report, &driver.Error{
			Kind: driver.Transient, Text: fmt.Sprintf("the command didn't start in session %s within %s", r.name, joinWait),
			Hint: "look whether a program of the session traces others, or stops what starts",
		}
	}
	if waitErr := cmd.Wait(); err == nil && waitErr != nil {
		err = fmt.Errorf("enter session %s: %w", r.name, waitErr)
	}
	return report, err
}

// joinWait bounds the time that a command needs to start: programs of the session can trace
// and so stop a process on its way in.
const joinWait = 10 * time.Second

// admit lets a process enter the session, and waits for its report.
func (r *runner) admit(conn *control.Conn, gate io.Writer, pid int, config stage.Config) (report stage.Report, err error) {
	if err := conn.SetDeadline(time.Now().Add(joinWait)); err != nil {
		return report, err
	}
	if err := r.tree.group.Add(pid); err != nil {
		return report, err
	}
	if _, err := gate.Write(tiny.EnterFilter(r.limits.Filter, r.limits.NoNewPrivs)); err != nil {
		return report, err
	}
	return converse(conn, config)
}

// hookWait is how long a hook may take if the session doesn't say.
const hookWait = 10 * time.Second

// hook runs a command of the session's own before or after a suspend. If it fails,
// that is a warning.
func (r *runner) hook(ctx context.Context, script string) (warnings []schemas.Warning) {
	if script == "" {
		return nil
	}
	limit := r.spec.Hooks.Timeout
	if limit <= 0 {
		limit = hookWait
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c, err := r.exec(ctx, attach.Request{Argv: []string{"/bin/sh", "-c", script}})
	if err != nil {
		return hookFailed(script, "didn't start: %v", err)
	}
	defer c.close()
	select {
	case <-c.done:
		if c.exit.Code != 0 {
			return hookFailed(script, "failed with %d: %s", c.exit.Code, c.lastLine())
		}
		return nil
	case <-ctx.Done():
		r.killCommand(c)
		return hookFailed(script, "took longer than %s and was killed", limit)
	}
}

func hookFailed(script, format string, args ...any) []schemas.Warning {
	text := fmt.Sprintf("hook %q ", script) + fmt.Sprintf(format, args...)
	return []schemas.Warning{{Code: schemas.WarnHook, Subject: script, Text: text}}
}

// lastLine returns the last line that the command wrote.
func (c *command) lastLine() string {
	const enough = 512
	var text []byte
	for at := c.log.Tail(enough); ; {
		_, b, next, err := c.log.Next(context.Background(), at)
		if err != nil {
			break
		}
		text, at = append(text, b...), next
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

// killCommand kills a command and waits for its end.
func (r *runner) killCommand(c *command) {
	pid, err := hostPID(r.tree.init, c.pid)
	if err != nil {
		return // it ended
	}
	if err := unix.Kill(pid, unix.SIGKILL); err == nil {
		<-c.done
	}
}
