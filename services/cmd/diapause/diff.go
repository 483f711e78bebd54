package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/services/export"
)

const diffHelp = `Print the lines in which the text of two sessions' recordings differs, as "diff -u"
does, and nothing if they are the same. The text is that of "export --format text".

With numbers of commands, as "diapause commands" lists them, print in what the outputs
of two commands differ: of one session, or each of its own. Their text is that of
"diapause output". It resumes nothing.`

func diffCommand(c *client) *cobra.Command {
	return &cobra.Command{
		Use: "diff NAME NAME | NAME NUMBER NUMBER | NAME NUMBER NAME NUMBER", Short: "Compare what two sessions' terminals, or two commands, printed", Args: cobra.RangeArgs(2, 4),
		Long:    diffHelp,
		Example: "  diapause diff before after\n  diapause diff work 12 15\n  diapause diff work 12 other 3",
		RunE: func(cmd *cobra.Command, args []string) error {
			sides, err := sidesOf(args)
			if err != nil {
				return err
			}
			return c.diff(cmd.Context(), sides)
		},
	}
}

// side is one of two texts that are compared.
type side struct {
	name    string
	command int64 // its output; all that was recorded if 0
}

func (s side) String() string {
	if s.command == 0 {
		return s.name
	}
	return fmt.Sprintf("%s #%d", s.name, s.command)
}

// sidesOf reads what is to be compared.
func sidesOf(args []string) (sides [2]side, err error) {
	switch len(args) {
	case 2:
		return [2]side{{name: args[0]}, {name: args[1]}}, nil
	case 3:
		args = []string{args[0], args[1], args[0], args[2]}
	}
	for i := range sides {
		sides[i].name = args[2*i]
		if sides[i].command, err = commandNumber("diff", args[2*i], args[2*i+1]); err != nil {
			return sides, err
		}
	}
	return sides, nil
}

// diff prints in what two texts differ.
func (c *client) diff(ctx context.Context, sides [2]side) error {
	var texts [2][]string
	for i, s := range sides {
		text := export.Bounded{Most: diffMost, Newlines: diffLines}
		err := c.sideText(ctx, s, &text)
		if errors.Is(err, export.ErrTooMuch) {
			return fmt.Errorf("compare %s: it has more than %s of text, or %d lines", s, size(diffMost), diffLines)
		}
		if err != nil {
			return err
		}
		texts[i] = text.Lines()
	}
	out := gathered{to: printed}
	export.Unified(&out, [2]string{sides[0].String(), sides[1].String()}, texts[0], texts[1])
	return out.flush()
}

// sideText writes one of the texts.
func (c *client) sideText(ctx context.Context, s side, to *export.Bounded) error {
	if s.command == 0 {
		return c.exportTo(ctx, s.name, export.Text, attach.History{}, to)
	}
	text := &textOnly{to: to}
	_, err := c.kept(ctx, s.name, attach.History{Command: s.command}, attach.Streams{Stdout: text, Stderr: complained})
	if err != nil {
		return err
	}
	return text.end()
}

// diffMost and diffLines bound the texts that are compared, in bytes and in lines each: they are in memory.
const (
	diffMost  = 64 << 20
	diffLines = 1 << 20
)
