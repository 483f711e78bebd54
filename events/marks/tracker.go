package marks

import (
	"bytes"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/diapause/diapause/schemas"
)

// Bounds of what is kept of a command, in bytes.
const (
	MaxText = 8 << 10
	maxDir  = 4 << 10
	maxEcho = 16 << 10 // of a line that a shell shows while it is typed
)

// Command is one that a shell ran, or runs.
type Command = schemas.TypedCommand

// State is what a Tracker knows between two marks.
type State struct {
	Last    int64    `json:"last,omitempty"` // number of the last command
	Running *Command `json:"running,omitempty"`
	Dir     string   `json:"dir,omitempty"`
	Text    string   `json:"text,omitempty"` // of the command that is about to run
	Cut     bool     `json:"cut,omitempty"`
	Given   bool     `json:"given,omitempty"` // the shell said that text
}

// Tracker makes commands of what a terminal shows. Its zero value is one at a terminal's beginning. It may be used from one
// goroutine at a time.
type Tracker struct {
	// Line gives the text that a terminal shows of bytes that were printed: the line as it was typed, where the shell
	// doesn't say it. Nil if there is none.
	Line func(echo []byte) string

	is     State
	parser parser
	typing bool // after the prompt
	echo   []byte
}

// State is what is to be kept of the tracker, to be given to Resume.
func (t *Tracker) State() State {
	s := t.is
	if s.Running != nil {
		c := *s.Running
		s.Running = &c
	}
	return s
}

// Resume goes on from a state.
func (t *Tracker) Resume(s State) { t.is = s }

// Write takes what the terminal shows from a position on, at a moment, and what is known of who typed. It calls fn with each
// command that begins, whose Ended is zero, and once more with each that ends.
func (t *Tracker) Write(b []byte, at int64, now time.Time, by schemas.MadeBy, fn func(Command)) {
	t.parser.feed(b, at, func(f found) { t.take(f, now, by, fn) }, t.between)
}

func (t *Tracker) between(b []byte) {
	if t.typing && t.Line != nil {
		t.echo = append(t.echo, b[:min(len(b), maxEcho-len(t.echo))]...)
	}
}

func (t *Tracker) take(f found, now time.Time, by schemas.MadeBy, fn func(Command)) {
	kind, rest, _ := bytes.Cut(f.text, []byte(";"))
	if string(kind) == "7" {
		t.cd(dirOfURL(string(rest)))
		return
	}
	visual := string(kind) == "633"
	name, rest, _ := bytes.Cut(rest, []byte(";"))
	switch string(name) {
	case "A":
		t.end(f.start, now, nil, fn)
		t.typing = false
	case "B":
		t.typing, t.echo = true, t.echo[:0]
	case "C":
		t.run(f, string(rest), now, by, fn)
	case "D":
		t.end(f.start, now, exitOf(string(rest)), fn)
	case "E":
		if visual {
			text, _, _ := bytes.Cut(rest, []byte(";"))
			t.say(unescape(string(text)), f.cut)
		}
	case "P":
		if dir, ok := strings.CutPrefix(string(rest), "Cwd="); visual && ok && !f.cut {
			t.cd(unescape(dir))
		}
	}
}

func (t *Tracker) cd(dir string) {
	if strings.HasPrefix(dir, "/") && len(dir) <= maxDir {
		t.is.Dir = strings.ToValidUTF8(dir, "\ufffd")
	}
}

// say notes the text of the command that is about to run.
func (t *Tracker) say(text string, cut bool) {
	text = strings.ToValidUTF8(text, "\ufffd")
	if len(text) > MaxText {
		n := MaxText
		for !utf8.RuneStart(text[n]) {
			n--
		}
		text, cut = text[:n], true
	}
	t.is.Text, t.is.Cut, t.is.Given = text, cut, true
}

// run begins a command. One without a text, or with a space before it, isn't recorded.
func (t *Tracker) run(f found, options string, now time.Time, by schemas.MadeBy, fn func(Command)) {
	for option := range strings.SplitSeq(options, ";") {
		if text, ok := strings.CutPrefix(option, "cmdline_url="); ok {
			if text, err := url.PathUnescape(text); err == nil {
				t.say(text, f.cut)
			}
		}
	}
	if !t.is.Given && t.typing && t.Line != nil {
		t.say(t.Line(t.echo), len(t.echo) == maxEcho)
	}
	text, cut := t.is.Text, t.is.Cut
	t.is.Text, t.is.Cut, t.is.Given = "", false, false
	t.typing, t.echo = false, nil
	if was := t.is.Running; was != nil && was.From == f.start { // a shell with two kinds of marks
		was.From = f.end
		return
	}
	t.end(f.start, now, nil, fn)
	if strings.TrimSpace(text) == "" || text[0] == ' ' || text[0] == '\t' {
		return
	}
	t.is.Last++
	t.is.Running = &Command{Number: t.is.Last, Text: text, Cut: cut, Dir: t.is.Dir, By: by, Began: now, From: f.end}
	fn(*t.is.Running)
}

// End ends the command that runs, if one does: the terminal ends.
func (t *Tracker) End(at int64, now time.Time, fn func(Command)) { t.end(at, now, nil, fn) }

// end ends the command that runs, if one does.
func (t *Tracker) end(at int64, now time.Time, exit *int, fn func(Command)) {
	c := t.is.Running
	if c == nil {
		return
	}
	t.is.Running = nil
	c.Ended, c.Exit, c.To = now, exit, max(at, c.From)
	if now.Before(c.Began) { // the clock was set back
		c.Ended = c.Began
	}
	fn(*c)
}

// exitOf reads a status; nil if it is none.
func exitOf(text string) *int {
	text, _, _ = strings.Cut(text, ";")
	n, err := strconv.Atoi(text)
	if err != nil || n < -1<<31 || n > 1<<31-1 {
		return nil
	}
	return &n
}

// unescape undoes VS Code's escapes: \\ for a backslash, \xHH for a byte.
func unescape(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] != '\\' || i+1 == len(text):
			b.WriteByte(text[i])
		case text[i+1] == '\\':
			b.WriteByte('\\')
			i++
		case text[i+1] == 'x' && i+3 < len(text):
			n, err := strconv.ParseUint(text[i+2:i+4], 16, 8)
			if err != nil {
				b.WriteByte('\\')
				continue
			}
			b.WriteByte(byte(n))
			i += 3
		default:
			b.WriteByte('\\')
		}
	}
	return b.String()
}

// dirOfURL gives the directory that a file: URL names; "" if it isn't one.
func dirOfURL(text string) string {
	rest, ok := strings.CutPrefix(text, "file://")
	if !ok {
		return ""
	}
	_, path, _ := strings.Cut(rest, "/")
	dir, err := url.PathUnescape("/" + path)
	if err != nil {
		return ""
	}
	return dir
}
