package programs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/diapause/diapause/e2e/compat/local"
)

// Tmux is tmux on the session's terminal with vim in it: after each resume the
// terminal has another size, which has to reach vim through both terminals.
func Tmux() Program {
	return Program{
		Name:  "tmux with vim",
		State: "typed text in vim's buffer, a new size of the terminal reaches tmux and then vim, /dev/tty opens in a second window, all by the same processes",
		Needs: []string{"tmux", "vim"}, Version: []string{"tmux", "-V"},
		Flags: []string{"--tty", "--env", "TERM=xterm", "--env", "LC_ALL=C.UTF-8"},
		Command: []string{"tmux", "-S", "/tmp/tmux", "-f", "/dev/null", "new-session",
			`exec vim -u NONE -N -c 'autocmd VimResized * call writefile([&columns . "x" . &lines], "/tmp/size")' /tmp/letter`,
			";", "set", "-g", "status", "off", ";", "set", "-g", "escape-time", "0", ";",
			"new-window", "-d", "exec sh -c 'mkfifo /tmp/in; exec 3<>/tmp/in; while read line <&3; do echo $line >/dev/tty; done'"},
		Prepare: tmuxPrepare, Check: tmuxCheck,
	}
}

// tmuxPrepare looks for the lines that vim has not: the name of its file goes with the first
// change of size.
func tmuxPrepare(ctx context.Context, s *local.Session) error {
	if _, err := s.Until(ctx, patience, "test -p /tmp/in && "+tmuxScreen(0)+" | grep -x '~'"); err != nil {
		return fmt.Errorf("there is no vim in tmux: %w", err)
	}
	return tmuxType(ctx, s, 0, "iDear reader,\rround 0\x1b")
}

func tmuxCheck(ctx context.Context, s *local.Session, r Round) error {
	if err := tmuxType(ctx, s, r.N, fmt.Sprintf("Goround %d\x1b", r.N)); err != nil {
		return err
	}
	if _, err := s.Shell(ctx, fmt.Sprintf("echo round-%d >/tmp/in", r.N)); err != nil {
		return err
	}
	if _, err := s.Until(ctx, patience, fmt.Sprintf("%s | grep -x round-%d", tmuxScreen(1), r.N)); err != nil {
		shown, _ := s.Shell(ctx, tmuxScreen(1)+"; ps -ej")
		return fmt.Errorf("/dev/tty doesn't work: %w; the window shows %q", err, strings.TrimSpace(shown))
	}
	return nil
}

// tmuxType attaches a terminal of another size than the last time, waits until vim
// has that size, types, and finds all that was ever typed in vim's buffer.
func tmuxType(ctx context.Context, s *local.Session, round int, keys string) error {
	columns, rows := 70+round, 20+round
	t, err := s.AttachSized(ctx, columns, rows)
	if err != nil {
		return err
	}
	err = tmuxTyped(ctx, s, t, round, fmt.Sprintf("%dx%d", columns, rows), keys)
	if err != nil {
		shown, _ := s.Shell(ctx, tmuxScreen(0))
		err = fmt.Errorf("%w; tmux shows %q", err, strings.TrimSpace(shown))
	}
	return errors.Join(err, t.Detach())
}

func tmuxTyped(ctx context.Context, s *local.Session, t *local.Terminal, round int, size, keys string) error {
	if _, err := s.Until(ctx, patience, "grep -x "+size+" /tmp/size"); err != nil {
		return fmt.Errorf("the size %s doesn't reach vim: %w", size, err)
	}
	if err := t.Type(fmt.Sprintf("%s:call writefile(getline(1, '$'), '/tmp/typed-%d')\r", keys, round)); err != nil {
		return err
	}
	typed, err := s.Until(ctx, patience, fmt.Sprintf("cat /tmp/typed-%d", round))
	if err != nil {
		return fmt.Errorf("what is typed doesn't reach vim: %w", err)
	}
	var want strings.Builder
	want.WriteString("Dear reader,\n")
	for n := range round + 1 {
		fmt.Fprintf(&want, "round %d\n", n)
	}
	return same("vim's buffer", want.String(), typed)
}

// tmuxScreen prints what a window of tmux shows.
func tmuxScreen(window int) string {
	return fmt.Sprintf("tmux -S /tmp/tmux capture-pane -p -t :%d", window)
}
