package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/events/attach"
)

func diffCommand(c *client) *cobra.Command {
	return &cobra.Command{
		Use: "diff NAME NAME", Short: "Compare what two sessions' terminals printed", Args: cobra.ExactArgs(2),
		Long: `Print the lines in which the text of two sessions' recordings differs, as "diff -u"
does, and nothing if they are the same. The text is that of "export --format text". It
resumes nothing.`,
		Example: "  diapause diff before after",
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.diff(cmd.Context(), args[0], args[1])
		},
	}
}

// diff prints in what the texts of two recordings differ.
func (c *client) diff(ctx context.Context, a, b string) error {
	var texts [2][]string
	for i, name := range []string{a, b} {
		text := bounded{most: diffMost, lines: diffLines}
		err := c.text(ctx, name, attach.History{}, &text)
		if errors.Is(err, errTooMuch) {
			return fmt.Errorf("compare %s: it has more than %s of text, or %d lines", name, size(diffMost), diffLines)
		}
		if err != nil {
			return err
		}
		texts[i] = strings.SplitAfter(text.String(), "\n")
		texts[i] = texts[i][:len(texts[i])-1] // the last line has its end, too
	}
	out := gathered{to: printed}
	unified(&out, [2]string{a, b}, texts[0], texts[1])
	return out.flush()
}

// diffMost and diffLines bound the texts that are compared, in bytes and in lines each: they are in memory.
const (
	diffMost  = 64 << 20
	diffLines = 1 << 20
)

var errTooMuch = errors.New("it is too much")

// bounded is text up to a size, and so many lines.
type bounded struct {
	strings.Builder
	most, lines int
}

// WriteString is Write.
func (b *bounded) WriteString(text string) (int, error) { return b.Write([]byte(text)) }

func (b *bounded) Write(p []byte) (int, error) {
	if b.lines -= bytes.Count(p, []byte{'\n'}); b.Len()+len(p) > b.most || b.lines < 0 {
		return 0, errTooMuch
	}
	return b.Builder.Write(p)
}
