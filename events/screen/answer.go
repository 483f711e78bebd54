package screen

import (
	"bytes"
	"fmt"
)

// maxAnswers bounds what one Write answers, in bytes.
const maxAnswers = 4 << 10

// name is what the terminal says it is.
const name = "Diapause"

// answerer answers in a screen's stead.
type answerer struct{ of *Screen }

// answer answers a sequence if it asks for something that is known here.
func (s answerer) answer(q *sequence) {
	if !q.asks() || len(s.of.answers) > maxAnswers {
		return
	}
	switch {
	case q.opened == 0 && q.final == 'Z':
		s.say("\x1b[?1;2c")
	case q.opened == '[':
		s.report(q)
	case q.opened == 'P' && q.inter == '$':
		s.setting(q)
	case q.opened == 'P' && q.inter == '+':
		s.say("\x1bP0+r\x1b\\")
	}
}

func (s answerer) say(format string, args ...any) {
	s.of.answers = fmt.Appendf(s.of.answers, format, args...)
}

// report answers a control sequence.
func (s answerer) report(q *sequence) {
	n := q.at(0, 0)
	switch {
	case q.final == 'c' && q.private == 0 && n == 0:
		s.say("\x1b[?1;2c") // a VT100 with advanced video, as xterm.js
	case q.final == 'c' && q.private == '>' && n == 0:
		s.say("\x1b[>0;276;0c")
	case q.final == 'n' && n == 5:
		s.say("\x1b[0n")
	case q.final == 'n' && n == 6:
		y := s.of.area.cursor.y
		if s.of.area.cursor.origin {
			y -= s.of.area.top
		}
		mark := ""
		if q.private == '?' {
			mark = "?"
		}
		s.say("\x1b[%s%d;%dR", mark, y+1, s.of.area.cursor.x+1)
	case q.final == 'p':
		mark := ""
		if q.private == '?' {
			mark = "?"
		}
		s.say("\x1b[%s%d;%d$y", mark, n, s.state(q))
	case q.final == 'q':
		s.say("\x1bP>|%s\x1b\\", name)
	case q.final == 't' && (n == 18 || n == 19):
		s.say("\x1b[%d;%d;%dt", n-10, s.of.area.rows, s.of.area.cols)
	}
}

// setting answers what a setting is.
func (s answerer) setting(q *sequence) {
	var value []byte
	switch string(q.data) {
	case "m":
		value = append(s.of.glyphs.sgr([]byte("0"), s.of.area.cursor.pen), 'm')
	case "r":
		value = fmt.Appendf(nil, "%d;%dr", s.of.area.top+1, s.of.area.bottom+1)
	case " q":
		value = fmt.Appendf(nil, "%d q", s.of.style)
	default:
		s.say("\x1bP0$r\x1b\\")
		return
	}
	s.say("\x1bP1$r%s\x1b\\", value)
}

// windowReports are the numbers of CSI t that ask for something.
const windowReports = "\x0b\x0d\x0e\x0f\x10\x12\x13\x14\x15"

// asks reports whether a terminal answers the sequence.
func (q *sequence) asks() bool {
	switch q.opened {
	case 0:
		return q.inter == 0 && q.final == 'Z'
	case '[':
		return q.asksByControl()
	case ']':
		return q.asksByCommand()
	case 'P':
		return q.inter == '$' && q.final == 'q' || q.inter == '+' && (q.final == 'q' || q.final == 'Q')
	}
	return true // nothing is known that a terminal of ours shows, and some answer
}

func (q *sequence) asksByControl() bool {
	switch q.inter {
	case 0:
	case '$':
		return q.final == 'p' || q.final == 'w' || q.final == 'u'
	case '*':
		return q.final == 'y'
	case '&':
		return q.final == 'u'
	case '#':
		return q.final == '|' || q.final == 'R'
	case '\'':
		return q.final == '|' || q.final == 'w' || q.final == 'z'
	default:
		return false
	}
	switch q.final {
	case 'c':
		return true
	case 'n':
		return q.private != '>'
	case 'q':
		return q.private == '>'
	case 'u', 'm', 'S':
		return q.private == '?'
	case 'x':
		return q.private == 0
	case 't':
		n := q.at(0, 0)
		return q.private == 0 && n < 0x20 && bytes.IndexByte([]byte(windowReports), byte(n)) >= 0
	}
	return false
}

// asksByCommand reports whether an operating system command asks: what may be text or an address doesn't.
func (q *sequence) asksByCommand() bool {
	n, rest := q.number()
	switch n {
	case 0, 1, 2, 7, 8, 9, 133, 633, 777:
		return false
	case 1337:
		return bytes.HasPrefix(rest, []byte("Report")) || bytes.HasPrefix(rest, []byte("Request")) || bytes.IndexByte(rest, '?') >= 0
	}
	return bytes.IndexByte(rest, '?') >= 0
}

// state is what DECRQM answers of a mode: 1 on, 2 off, 0 unknown.
func (s answerer) state(q *sequence) int {
	n, on := q.at(0, 0), false
	known := true
	switch {
	case q.private == '?' && n == 6:
		on = s.of.area.cursor.origin
	case q.private == '?' && (n == 47 || n == 1047 || n == 1049):
		on = s.of.alt != nil
	case q.private == '?':
		var m modes
		m, known = private[n]
		on = s.of.modes.has(m)
	case n == 4:
		on = s.of.modes.has(insert)
	case n == 20:
		on = s.of.modes.has(newline)
	default:
		known = false
	}
	switch {
	case !known:
		return 0
	case on:
		return 1
	}
	return 2
}
