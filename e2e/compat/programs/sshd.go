package programs

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/diapause/diapause/e2e/compat/local"
)

//go:embed sshd.sh
var sshdStart string

// Sshd is an SSH server and two logins to it within the session, which never
// connect again.
func Sshd() Program {
	l := &logins{rest: map[string]string{}}
	return Program{
		Name:  "sshd and ssh",
		State: "two logins over loopback, one with a terminal: same shell, same connection, every line answered once, /dev/tty opens",
		Needs: []string{"/usr/sbin/sshd", "ssh", "ssh-keygen"}, Version: []string{"/bin/sh", "-c", "ssh -V 2>&1 | sed 's/^OpenSSH_//'"},
		Command: []string{"/bin/sh", "-c", sshdStart},
		Prepare: func(ctx context.Context, s *local.Session) error {
			if _, err := s.Until(ctx, patience, "test -e /tmp/typed.out -a -e /tmp/plain.out"); err != nil {
				return l.explain(ctx, s, err)
			}
			return l.ask(ctx, s, 1)
		},
		Check: func(ctx context.Context, s *local.Session, r Round) error { return l.ask(ctx, s, r.N+1) },
	}
}

// logins remembers what follows the line and its number in each login's answers.
type logins struct{ rest map[string]string }

func (l *logins) ask(ctx context.Context, s *local.Session, n int) error {
	for _, login := range []string{"plain", "typed"} {
		if _, err := s.Shell(ctx, fmt.Sprintf("echo line-%d >/tmp/%s", n, login)); err != nil {
			return err
		}
		out, err := s.Until(ctx, patience, fmt.Sprintf("grep '^line-%d ' /tmp/%s.out", n, login))
		if err != nil {
			return l.explain(ctx, s, fmt.Errorf("the %s login doesn't answer: %w", login, err))
		}
		rest, ok := strings.CutPrefix(strings.TrimSpace(out), fmt.Sprintf("line-%[1]d %[1]d ", n))
		if !ok {
			return fmt.Errorf("the %s login answers %q to line %d", login, out, n)
		}
		if was, ok := l.rest[login]; ok && was != rest {
			return same("the "+login+" login's shell and connection", was, rest)
		}
		l.rest[login] = rest
	}
	return nil
}

func (l *logins) explain(ctx context.Context, s *local.Session, err error) error {
	said, _ := s.Shell(context.WithoutCancel(ctx), "tail -n 5 /tmp/start.out /tmp/server.out /tmp/plain.out /tmp/typed.out")
	return fmt.Errorf("%w: %s", err, said)
}
