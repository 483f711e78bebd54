package programs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/diapause/diapause/e2e/compat/local"
)

// Vim is an editor whose buffer is changed and not saved until the last round.
func Vim() Program {
	return Program{
		Name: "vim", State: "unsaved buffer, undo history, screen redrawn on its terminal, saved in the end",
		Needs: []string{"vim"}, Version: []string{"/bin/sh", "-c", "vim --version | sed -n '1s/.*IMproved //p'"},
		Flags: []string{"--tty", "--env", "TERM=xterm"}, Command: []string{"vim", "-u", "NONE", "-N", "/tmp/letter"},
		Prepare: vimPrepare, Check: vimCheck,
	}
}

func vimPrepare(ctx context.Context, s *local.Session) error {
	return atTerminal(ctx, s, []step{
		{"", "letter"},
		{"iDear reader,\rround 0\x1b", ""},
		{vimAsk("start"), "start:2:1:round 0"},
	})
}

// vimAsk makes vim say how many lines there are, whether they are changed, and
// the last one.
func vimAsk(mark string) string {
	return fmt.Sprintf(":echo '%s' . ':' . line('$') . ':' . &modified . ':' . getline('$')\r", mark)
}

func vimCheck(ctx context.Context, s *local.Session, r Round) error {
	if _, err := s.Shell(ctx, "test ! -e /tmp/letter"); err != nil {
		return errors.New("the unsaved buffer is in a file")
	}
	mark := fmt.Sprintf("was%d", r.N)
	steps := []step{
		{vimAsk(mark), fmt.Sprintf("%s:%d:1:round %d", mark, r.N+1, r.N-1)},
		// Redrawn as a whole, the first line is there again.
		{"\x0c", "Dear reader,"},
		// A line too many, which undo takes away.
		{fmt.Sprintf("Goround %d\x1bothis goes\x1bu", r.N), ""},
		{vimAsk("is"), fmt.Sprintf("is:%d:1:round %d", r.N+2, r.N)},
	}
	if r.Last {
		steps = append(steps, step{":w\r", "written"})
	}
	if err := atTerminal(ctx, s, steps); err != nil || !r.Last {
		return err
	}
	text, err := s.Shell(ctx, "cat /tmp/letter")
	if err != nil {
		return err
	}
	var want strings.Builder
	want.WriteString("Dear reader,\n")
	for n := range r.N + 1 {
		fmt.Fprintf(&want, "round %d\n", n)
	}
	return same("the letter", want.String(), text)
}
