package shim

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/attach/backlog"
	"github.com/diapause/diapause/workers/shim/control"
	"github.com/diapause/diapause/workers/shim/stage"
)

// exec starts one more command in the session. It waits while the session is
// captured, and no capture begins before the command is a child of init. The
// caller reads its log; when it has ended, close.
func (s *session) exec(ctx context.Context, r attach.Request) (*command, error) {
	if err := s.gate.enter(ctx); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	return s.execInside(r)
}

// execInside is exec for who has shut the gate, or is inside it.
func (s *session) execInside(r attach.Request) (*command, error) {
	c := newCommand(backlog.New(attach.OutputKept), true)
	theirs, err := s.connect(c, r)
	defer closeFiles(theirs)
	if err != nil {
		c.close()
		return nil, err
	}
	// Reports on older processes with the same pid are of no interest from here,
	// and those on other new commands must not get lost: one at a time.
	s.joining.Lock()
	defer s.joining.Unlock()
	s.tree.forget()
	report, err := s.join(s.commandOf(c, r), theirs)
	if err != nil {
		c.close()
		return nil, err
	}
	c.pid = report.PID
	c.run(&s.pumps)
	s.tree.follow(c)
	return c, nil
}

func (s *session) connect(c *command, r attach.Request) ([]*os.File, error) {
	if !r.TTY {
		return c.usePipes(r.Stdin)
	}
	t, err := openTerminal(s.place.terminals())
	if err != nil {
		return nil, err
	}
	if err := c.useTerminal(t); err != nil {
		t.close()
		return nil, err
	}
	return nil, t.resize(windowOf(r.Rows, r.Cols))
}

// commandOf fills in what a request leaves to the session.
func (s *session) commandOf(c *command, r attach.Request) stage.Command {
	spec := s.setup.Spec
	cmd := stage.Command{Argv: r.Argv, Env: r.Env, Dir: r.Dir, User: r.User, Stdin: !r.TTY && r.Stdin}
	if len(cmd.Env) == 0 {
		cmd.Env = append(append([]string(nil), spec.Env...), "DIAPAUSE_SESSION="+s.setup.Name.String())
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

// join brings a command into the session by way of a stage, which ends before
// join returns: the command is then a child of init.
func (s *session) join(c stage.Command, files []*os.File) (stage.Report, error) {
	ours, theirs, err := control.Pair()
	if err != nil {
		return stage.Report{}, err
	}
	defer ours.Close()
	fd, err := unix.PidfdOpen(s.tree.init, 0)
	if err != nil {
		theirs.Close()
		return stage.Report{}, fmt.Errorf("enter session %s: %w", s.setup.Name, err)
	}
	door := os.NewFile(uintptr(fd), "session")
	waiting, gate, err := os.Pipe()
	if err != nil {
		theirs.Close()
		door.Close()
		return stage.Report{}, fmt.Errorf("enter session %s: %w", s.setup.Name, err)
	}
	cmd := s.program.join(s.setup.Self, waiting, append([]*os.File{theirs, door}, files...))
	err = cmd.Start()
	closeFiles([]*os.File{theirs, door, waiting})
	if err != nil {
		gate.Close()
		return stage.Report{}, fmt.Errorf("enter session %s: %w", s.setup.Name, err)
	}
	var report stage.Report
	if err = s.group.Add(cmd.Process.Pid); err == nil {
		if _, err = gate.Write([]byte{1}); err == nil {
			report, err = converse(ours, stage.Config{Command: c})
		}
	}
	gate.Close()
	ours.Close()
	if waitErr := cmd.Wait(); err == nil && waitErr != nil {
		err = fmt.Errorf("enter session %s: %w", s.setup.Name, waitErr)
	}
	return report, err
}

// hookWait is how long a hook may take if the session doesn't say.
const hookWait = 10 * time.Second

// hook runs a command of the session's own before or after a suspend. Its
// failure is a warning and stops nothing.
func (s *session) hook(ctx context.Context, script string) (warnings []string) {
	if script == "" {
		return nil
	}
	limit := s.setup.Spec.Hooks.Timeout
	if limit <= 0 {
		limit = hookWait
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c, err := s.exec(ctx, attach.Request{Argv: []string{"/bin/sh", "-c", script}})
	if err != nil {
		return []string{fmt.Sprintf("hook %q didn't start: %v", script, err)}
	}
	defer c.close()
	select {
	case <-c.done:
		if c.exit.Code != 0 {
			return []string{fmt.Sprintf("hook %q failed with %d: %s", script, c.exit.Code, c.lastLine())}
		}
		return nil
	case <-ctx.Done():
		s.killCommand(c)
		return []string{fmt.Sprintf("hook %q took longer than %s and was ended", script, limit)}
	}
}

// lastLine gives the end of what the command wrote.
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

// killCommand ends a command, and returns when it has.
func (s *session) killCommand(c *command) {
	pid, err := hostPID(s.tree.init, c.pid)
	if err != nil {
		return // it ended
	}
	if err := unix.Kill(pid, unix.SIGKILL); err == nil {
		<-c.done
	}
}
