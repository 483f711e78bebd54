package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"unicode/utf8"
)

const (
	esc = 0x1b
	bel = 0x07
	can = 0x18
	sub = 0x1a
	del = 0x7f
)

type state byte

const (
	ground  state = iota
	escape        // after ESC
	charset       // after ESC and an intermediate
	csi           // in a control sequence
	text          // in a control string
	ended         // after an ESC in one
)

// maxString bounds what is kept of a control string, in bytes: what is longer is looked at in parts.
const maxString = 64 << 10

// scanner takes the text out of what a terminal is sent, in three ways: as the cursor goes, as if it never went back or
// elsewhere, and what is in control strings, as the text of a command is.
type scanner struct {
	lines, flat, strings lane

	state state
	at    int64  // position of the next byte
	cr    bool   // the last one was a carriage return
	raw   []byte // of a control string
	start int64  // where that is
}

func (s *scanner) write(b []byte) {
	for i := 0; i < len(b); {
		if s.state == ground && !s.cr {
			n := printable(b[i:])
			s.lines.add(b[i:i+n], s.at)
			s.flat.add(b[i:i+n], s.at)
			s.at, i = s.at+int64(n), i+n
			if n > 0 {
				continue
			}
		}
		if s.step(b[i]) {
			s.at, i = s.at+1, i+1
		}
	}
}

// printable gives how many bytes begin b that move the cursor on and do nothing else.
func printable(b []byte) int {
	for i, c := range b {
		if c < ' ' || c == del {
			return i
		}
	}
	return len(b)
}

// step takes a byte; false if it is to be given again.
func (s *scanner) step(c byte) bool {
	switch s.state {
	case ground:
		return s.control(c)
	case escape:
		s.escaped(c)
	case charset:
		s.state = ground
	case csi:
		s.sequence(c)
	case ended:
		if c != '\\' { // the string is given up, and this is of another sequence
			s.endString()
			s.state = escape
			return false
		}
		s.endString()
	case text:
		s.inString(c)
	}
	return true
}

// control takes a byte that isn't in a sequence.
func (s *scanner) control(c byte) bool {
	if s.cr && c != '\r' {
		s.cr = false
		switch {
		case c == '\n':
		case s.lines.wrapped(): // a shell fills a row with a space, and goes back on the next
			s.flat.wrapped()
		default:
			s.lines.gap('\n')
			s.flat.gap('\n')
		}
		if c >= ' ' && c != del {
			return false
		}
	}
	switch c {
	case esc:
		s.state = escape
	case '\r':
		s.cr = true
	case '\n', '\t':
		s.lines.add([]byte{c}, s.at)
		s.flat.add([]byte{c}, s.at)
	case '\b', del:
		s.lines.back()
		s.flat.differs, s.lines.differs = true, true
	}
	return true
}

// escaped takes what follows an ESC.
func (s *scanner) escaped(c byte) {
	switch {
	case c == '[':
		s.state = csi
	case c == ']', c == 'P', c == 'X', c == '^', c == '_':
		s.state, s.raw, s.start = text, s.raw[:0], s.at+1
	case c == esc:
	case c >= ' ' && c < '0':
		s.state = charset
	default:
		s.state = ground
		if c == 'D' || c == 'E' || c == 'M' || c == 'c' {
			s.moved('\n')
		}
	}
}

// sequence takes a byte of a control sequence.
func (s *scanner) sequence(c byte) {
	switch {
	case c == esc:
		s.state = escape
	case c == can, c == sub:
		s.state = ground
	case c >= '@' && c < del:
		s.state = ground
		switch c {
		case 'A', 'B', 'E', 'F', 'H', 'L', 'M', 'S', 'T', 'd', 'f', 'r':
			s.moved('\n')
		case 'C', 'a':
			s.moved(' ')
		}
	}
}

// moved says that the cursor went elsewhere.
func (s *scanner) moved(gap byte) {
	s.lines.gap(gap)
	s.flat.differs, s.lines.differs = true, true
}

func (s *scanner) inString(c byte) {
	switch c {
	case bel:
		s.endString()
	case can, sub:
		s.raw, s.state = s.raw[:0], ground
	case esc:
		s.state = ended
	default:
		if len(s.raw) == maxString {
			s.strings.gap('\n')
			s.strings.add(s.raw, s.start)
			s.raw, s.start = s.raw[:0], s.at
		}
		s.raw = append(s.raw, c)
	}
}

// endString takes a whole control string.
func (s *scanner) endString() {
	s.strings.gap('\n')
	if len(s.raw) > 4 && (string(s.raw[:4]) == "133;" || string(s.raw[:4]) == "633;") && bytes.IndexByte([]byte("ACD"), s.raw[4]) >= 0 {
		s.lines.gap('\n') // by this mark a shell says that a prompt or the output of a command begins or ends
		s.flat.gap('\n')
	}
	switch {
	case bytes.HasPrefix(s.raw, []byte("633;")):
		s.decoded('\\')
	case bytes.HasPrefix(s.raw, []byte("133;")), bytes.HasPrefix(s.raw, []byte("7;")):
		s.decoded('%')
	case bytes.HasPrefix(s.raw, []byte("52;")):
		s.clipboard()
	default:
		s.strings.add(s.raw, s.start)
	}
	s.strings.gap('\n')
	s.raw, s.state = s.raw[:0], ground
	if cap(s.raw) > 4<<10 {
		s.raw = nil
	}
}

// decoded adds a string in which bytes are written as \xHH, or %HH, and a backslash as \\.
func (s *scanner) decoded(by byte) {
	b := s.raw
	for i := 0; i < len(b); {
		n, c := 1, b[i]
		if c == by {
			digits := i + 1
			if by == '\\' {
				digits++
			}
			var one [1]byte
			switch {
			case by == '\\' && i+1 < len(b) && b[i+1] == '\\':
				n = 2
			case digits+2 <= len(b) && (by == '%' || b[i+1] == 'x') && decodes(one[:], b[digits:digits+2]):
				n, c = digits+2-i, one[0]
			}
		}
		s.strings.put(c, s.start+int64(i), n)
		i += n
	}
}

func decodes(to, digits []byte) bool {
	_, err := hex.Decode(to, digits)
	return err == nil
}

// clipboard adds what is put into the clipboard, which is in base64.
func (s *scanner) clipboard() {
	at := bytes.LastIndexByte(s.raw, ';') + 1
	b := make([]byte, base64.StdEncoding.DecodedLen(len(s.raw)-at))
	n, _ := base64.StdEncoding.Decode(b, s.raw[at:]) // as far as it is
	for i, c := range b[:n] {
		s.strings.put(c, s.start+int64(at+i/3*4), 4)
	}
}

// lane is text, and where each of its bytes was in the output.
type lane struct {
	text    []byte
	at      []int64 // position and, in the lowest bits, length; none of what isn't in the output
	differs bool    // from the other one
}

// none is where a gap is. lengthBits is the room for a length.
const (
	none       = -1
	lengthBits = 4
)

func (l *lane) add(b []byte, at int64) {
	l.text = append(l.text, b...)
	for i := range b {
		l.at = append(l.at, (at+int64(i))<<lengthBits|1)
	}
}

// put adds a byte that is written with n.
func (l *lane) put(c byte, at int64, n int) {
	l.text, l.at = append(l.text, c), append(l.at, at<<lengthBits|int64(n))
}

// gap adds a space or a line end that isn't in the output.
func (l *lane) gap(c byte) {
	if n := len(l.text); n == 0 || l.text[n-1] != c || l.at[n-1] != none {
		l.text, l.at = append(l.text, c), append(l.at, none)
	}
}

// back takes out the last character of the line.
func (l *lane) back() {
	if n := len(l.text); n > 0 && l.text[n-1] != '\n' {
		_, size := utf8.DecodeLastRune(l.text)
		l.text, l.at = l.text[:n-size], l.at[:n-size]
	}
}

// wrapped takes out the space at the end, if there is one.
func (l *lane) wrapped() bool {
	n := len(l.text)
	if n == 0 || l.text[n-1] != ' ' || l.at[n-1] == none {
		return false
	}
	l.text, l.at = l.text[:n-1], l.at[:n-1]
	return true
}

// where gives where bytes of the text were in the output.
func (l *lane) where(of Range, found func(r Range, begins bool)) {
	var r Range
	begins := true
	tell := func() {
		if r.From < r.To {
			found(r, begins)
			begins = false
		}
	}
	for _, packed := range l.at[max(of.From, 0):min(of.To, int64(len(l.at)))] {
		if packed == none {
			continue
		}
		at, n := packed>>lengthBits, packed&(1<<lengthBits-1)
		if r.To != at {
			tell()
			r.From = at
		}
		r.To = at + n
	}
	tell()
}
