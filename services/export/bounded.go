package export

import (
	"bytes"
	"errors"
	"strings"
)

// ErrTooMuch says that a text has more than a Bounded holds.
var ErrTooMuch = errors.New("the text is too large")

// Bounded is text in memory, up to so many bytes and lines.
type Bounded struct {
	Most     int // bytes
	Newlines int
	text     strings.Builder
}

// WriteString is Write.
func (b *Bounded) WriteString(text string) (int, error) { return b.Write([]byte(text)) }

// Write implements io.Writer. It keeps nothing of what is too much.
func (b *Bounded) Write(p []byte) (int, error) {
	if b.Newlines -= bytes.Count(p, []byte{'\n'}); b.text.Len()+len(p) > b.Most || b.Newlines < 0 {
		return 0, ErrTooMuch
	}
	return b.text.Write(p)
}

// Lines gives the lines that have an end, with that.
func (b *Bounded) Lines() []string {
	all := strings.SplitAfter(b.text.String(), "\n")
	return all[:len(all)-1]
}
