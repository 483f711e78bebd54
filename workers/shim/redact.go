package shim

import (
	"context"
	"fmt"

	"github.com/diapause/diapause/events/redact"
	"github.com/diapause/diapause/events/screen"
	"github.com/diapause/diapause/schemas"
)

// redact takes something out of what is kept of the command's output, of what its terminal shows, and of the text of the command
// that runs in it, so that it isn't stored any more. Those who watch now have seen it.
func (c *command) redact(expression string) error {
	re, err := schemas.RedactRequest{Match: expression}.Expression()
	if err != nil {
		return err
	}
	match := redact.Matching(re)
	if c.shown == nil {
		redact.Log(c.log, match)
		return nil
	}
	if err := c.shown.redact(match); err != nil {
		return err
	}
	_ = c.recorder().seal() // so that nothing waits that has it; what can't be spilled is a gap
	return nil
}

func (w *shown) redact(match redact.Matcher) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	redact.Log(w.of.log, match)
	rows, cols := w.screen.Size()
	paint, dropped := w.screen.Paint(), w.screen.Dropped()
	redact.Bytes(paint, match)
	is := screen.New(rows, cols)
	is.Write(paint)
	at := w.screen.Offset()
	is.Resume(at, dropped)
	for _, end := w.of.log.Span(); at < end; {
		_, b, next, err := w.of.log.Next(context.Background(), at)
		if err != nil {
			return fmt.Errorf("redact what a terminal shows: %w", err)
		}
		is.Write(b) // what it asks for was answered, or not, before
		at = next
	}
	w.screen = is
	state := w.tracker.State()
	state.Text, state.Dir = redact.Masked(state.Text, match), redact.Masked(state.Dir, match)
	if state.Running != nil {
		state.Running.Text, state.Running.Dir = redact.Masked(state.Running.Text, match), redact.Masked(state.Running.Dir, match)
	}
	w.tracker.Resume(state)
	return nil
}
