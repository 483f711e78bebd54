package local

import (
	"context"
	"fmt"
	"time"

	"github.com/diapause/diapause/schemas"
)

// Session is a session of a daemon.
type Session struct {
	d    *Daemon
	Name string
}

// Run starts a session that is never suspended for idleness; flags are those of
// `diapause run`.
func (d *Daemon) Run(ctx context.Context, name string, flags []string, command ...string) (*Session, error) {
	args := append([]string{"run", "--name", name, "--idle", "never", "--cwd", "/"}, flags...)
	args = append(append(args, "--"), command...)
	if _, err := d.command(ctx, nil, args...); err != nil {
		return nil, err
	}
	return &Session{d, name}, nil
}

// Desktop starts a desktop that is never suspended for idleness, with an application of those that have a name, if one is given.
func (d *Daemon) Desktop(ctx context.Context, name, app string, flags []string, command ...string) (*Session, error) {
	args := append([]string{"desktop", "--name", name, "--idle", "never", "--cwd", "/"}, flags...)
	if app != "" {
		args = append(args, "--app", app)
	}
	args = append(append(args, "--"), command...)
	if _, err := d.command(ctx, nil, args...); err != nil {
		return nil, err
	}
	return &Session{d, name}, nil
}

// Exec runs a command inside the session, with stdin as its input, and gives its
// standard output.
func (s *Session) Exec(ctx context.Context, stdin string, argv ...string) (string, error) {
	return s.d.command(ctx, []byte(stdin), append([]string{"exec", s.Name, "--"}, argv...)...)
}

// Shell runs a line of sh inside the session and gives its standard output.
func (s *Session) Shell(ctx context.Context, line string) (string, error) {
	return s.Exec(ctx, "", "/bin/sh", "-c", line)
}

// Until runs a line of sh inside the session again and again until it succeeds,
// and gives its standard output.
func (s *Session) Until(ctx context.Context, wait time.Duration, line string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		out, err := s.Shell(ctx, line)
		if err == nil {
			return out, nil
		}
		select {
		case <-ctx.Done():
			return out, fmt.Errorf("not within %s: %w", wait, err)
		case <-time.After(30 * time.Millisecond):
		}
	}
}

// View is what the session is.
func (s *Session) View(ctx context.Context) (v schemas.View, err error) {
	err = s.d.ask(ctx, &v, "show", s.Name)
	return v, err
}

// Move moves the session to a host.
func (s *Session) Move(ctx context.Context, host string) (v schemas.View, err error) {
	err = s.d.ask(ctx, &v, "move", s.Name, "--host", host)
	return v, err
}

// Checkpoint takes an image of the session, which runs on.
func (s *Session) Checkpoint(ctx context.Context) error {
	_, err := s.d.command(ctx, nil, "checkpoint", s.Name)
	return err
}

// Suspend suspends the session and gives what it is then.
func (s *Session) Suspend(ctx context.Context) (schemas.View, error) {
	var v schemas.View
	if err := s.d.ask(ctx, &v, "suspend", s.Name); err != nil {
		return v, err
	}
	if v.State != schemas.Suspended {
		return v, fmt.Errorf("session %s is %s after its suspend: %s", s.Name, v.State, v.LastTransition.Reason)
	}
	return v, nil
}

// Ensure resumes the session and gives what it is then.
func (s *Session) Ensure(ctx context.Context) (schemas.View, error) {
	var v schemas.View
	if err := s.d.ask(ctx, &v, "ensure", s.Name); err != nil {
		return v, err
	}
	if v.State != schemas.Running || v.Boot != "resume" {
		return v, fmt.Errorf("session %s is %s, booted by %q, after its resume", s.Name, v.State, v.Boot)
	}
	return v, nil
}

// History is every transition of the session, the oldest first.
func (s *Session) History(ctx context.Context) ([]schemas.TransitionView, error) {
	var all []schemas.TransitionView
	return all, s.d.ask(ctx, &all, "history", s.Name)
}

// Last is the session's last transition of a type.
func (s *Session) Last(ctx context.Context, t schemas.TransitionType) (schemas.TransitionView, error) {
	all, err := s.History(ctx)
	if err != nil {
		return schemas.TransitionView{}, err
	}
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Type == t {
			return all[i], nil
		}
	}
	return schemas.TransitionView{}, fmt.Errorf("session %s was never %s", s.Name, t)
}

// Output is what the session's command has printed.
func (s *Session) Output(ctx context.Context) (string, error) {
	return s.d.command(ctx, nil, "logs", s.Name)
}

// Remove ends the session and deletes its images.
func (s *Session) Remove(ctx context.Context) error {
	_, err := s.d.command(ctx, nil, "rm", "--yes", s.Name)
	return err
}
