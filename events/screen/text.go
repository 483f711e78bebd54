package screen

import (
	"strings"
	"unicode/utf8"
)

// maxLine bounds a line of text, in characters: a longer one is given in parts, and where it ends with as many blanks those are left out.
const maxLine = 16 << 10

// Text makes plain text of what a program printed: without escape sequences, each line as it was when it ended, and without what
// was on the second screen. Its zero value is at the beginning of a line.
type Text struct {
	parser parser
	out    []byte
	line   []rune
	at     int // where the next character comes
	other  bool
}

// NewText makes one that begins on the second screen, or at the beginning of a line.
func NewText(second bool) *Text { return &Text{other: second} }

// Rest reports whether nothing is pending: what follows reads the same to a NewText of this second.
func (t *Text) Rest() (second, ok bool) {
	return t.other, t.parser.state == ground && len(t.line) == 0 && t.at == 0
}

// Write takes more output. What it returns is of whole characters, and valid until the next call.
func (t *Text) Write(p []byte) []byte {
	t.out = t.out[:0]
	t.parser.feed(p, t)
	return t.out
}

// End gives the last line if it didn't end.
func (t *Text) End() []byte {
	t.out = t.out[:0]
	t.flush()
	return t.out
}

// Line gives what there is of a line that didn't end.
func (t *Text) Line() string { return strings.TrimRight(string(t.line), " ") }

// flush gives the line, without blanks at its end.
func (t *Text) flush() {
	for len(t.line) > 0 && t.line[len(t.line)-1] == ' ' {
		t.line = t.line[:len(t.line)-1]
	}
	for _, r := range t.line {
		t.out = utf8.AppendRune(t.out, r)
	}
	t.line, t.at = t.line[:0], 0
}

func (t *Text) plain(p []byte) {
	for _, b := range p {
		t.char(rune(b), nil)
	}
}

func (t *Text) char(r rune, _ []byte) {
	if t.other {
		return
	}
	if t.at < len(t.line) {
		t.line[t.at] = r
	} else {
		t.line = append(t.line, r)
	}
	if t.at++; t.at >= maxLine && r != ' ' || t.at >= 2*maxLine {
		t.flush()
	}
}

func (t *Text) control(b byte) {
	switch {
	case t.other:
	case b == '\n':
		t.flush()
		t.out = append(t.out, '\n')
	case b == '\t':
		t.char('\t', nil)
	case b == '\r':
		t.at = 0
	case b == '\b':
		t.at = max(t.at-1, 0)
	}
}

func (t *Text) sequence(q *sequence) {
	if q.opened == 0 && q.final == 'c' && q.inter == 0 { // all is reset
		t.other = false
	}
	if q.opened != '[' {
		return
	}
	switch {
	case q.private == '?' && (q.final == 'h' || q.final == 'l'):
		for _, p := range q.params {
			if p.n == 47 || p.n == 1047 || p.n == 1049 {
				t.other = q.final == 'h'
			}
		}
	case q.private == 0 && q.final == 'K' && !t.other:
		t.erase(q)
	}
}

// erase erases a part of the line.
func (t *Text) erase(q *sequence) {
	how := 0
	if len(q.params) > 0 {
		how = max(q.params[0].n, 0)
	}
	if how != 0 {
		for i := range t.line[:min(t.at, len(t.line))] {
			t.line[i] = ' '
		}
	}
	if how != 1 {
		t.line = t.line[:min(t.at, len(t.line))]
	}
}
