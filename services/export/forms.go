package export

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/diapause/diapause/events/attach"
)

// The forms of an exported recording.
const (
	Asciicast = "asciicast" // version 3
	Text      = "text"
	HTML      = "html"
	JSONLines = "jsonl"
)

// Forms are all of them, the usual one first.
var Forms = []string{Asciicast, Text, HTML, JSONLines}

// MediaType is that of a form.
func MediaType(form string) string {
	switch form {
	case Asciicast:
		return "application/x-asciicast"
	case HTML:
		return "text/html; charset=utf-8"
	case JSONLines:
		return "application/jsonl"
	}
	return "text/plain; charset=utf-8"
}

// Framed reports whether a form is of what a terminal shows: of a part of a recording it wants the frame before that, too.
func Framed(form string) bool { return form != JSONLines }

// Writer writes a recording in some form. Its errors are those of what it writes to.
type Writer interface {
	Event(e attach.Event) error
	// End writes what is left, after the last event. What isn't ended is not whole.
	End() error
}

// New gives the writer of one of Forms. title is that of a page.
func New(form, title string, to io.Writer) Writer {
	switch form {
	case Text:
		return newText(to)
	case HTML:
		return newPage(title, to)
	case JSONLines:
		return lines{json.NewEncoder(to)}
	}
	return newCast(to)
}

// lines writes a line for each event, as a session's host sends them.
type lines struct{ enc *json.Encoder }

func (l lines) Event(e attach.Event) error { return l.enc.Encode(e) }
func (lines) End() error                   { return nil }

// maxLine bounds a line of an event, in bytes.
const maxLine = 1 << 20

// Each calls fn with the events that a session's host sends as the lines of r. fn's error ends it.
func Each(r io.Reader, fn func(attach.Event) error) error {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 64<<10), maxLine)
	for in.Scan() {
		var e attach.Event
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			return fmt.Errorf("read an event: %w", err)
		}
		if err := fn(e); err != nil {
			return err
		}
	}
	return in.Err()
}
