package programs

import (
	"context"
	"errors"
	"fmt"

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

func vimCheck(ctx context.Context, s *local.Session, round int) error {
	if _, err := s.Shell(ctx, "test ! -e /tmp/letter"); err != nil {
		return errors.New("the unsaved buffer is in a file")
	}
	mark := fmt.Sprintf("was%d", round)
	steps := []step{
		{vimAsk(mark), fmt.Sprintf("%s:%d:1:round %d", mark, round+1, round-1)},
		// Redrawn as a whole, the first line is there again.
		{"\x0c", "Dear reader,"},
		// A line too many, which undo takes away.
		{fmt.Sprintf("Goround %d\x1bothis goes\x1bu", round), ""},
		{vimAsk("is"), fmt.Sprintf("is:%d:1:round %d", round+2, round)},
	}
	if round == Rounds {
		steps = append(steps, step{":w\r", "written"})
	}
	if err := atTerminal(ctx, s, steps); err != nil || round < Rounds {
		return err
	}
	text, err := s.Shell(ctx, "cat /tmp/letter")
	if err != nil {
		return err
	}
	return same("the letter", "Dear reader,\nround 0\nround 1\nround 2\nround 3\n", text)
}
