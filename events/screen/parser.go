package screen

import (
	"bytes"
	"unicode/utf8"
)

// MaxString is how long a control string (a title, an image) may be, in bytes. A longer one is dropped.
const MaxString = 256 << 10

// maxSequence is how long another sequence may be.
const maxSequence = 256

const (
	bel = 0x07
	can = 0x18
	sub = 0x1a
	esc = 0x1b
)

type state byte

const (
	ground   state = iota
	partial        // in a character of several bytes
	escape         // after ESC
	control        // after CSI
	text           // in a control string
	textEnd        // after an ESC in one
	dropping       // in a control string that is too long
	dropEnd        // after an ESC in one
	overlong       // in a sequence that is too long
	escaped        // after ESC and an intermediate byte
)

// parts takes what a parser finds.
type parts interface {
	// plain takes printable ASCII.
	plain(p []byte)
	// char takes another character; raw is how it was written.
	char(r rune, raw []byte)
	// control takes a control character.
	control(b byte)
	// sequence takes a whole escape or control sequence, or a control string.
	sequence(q *sequence)
}

// parser cuts bytes into parts.
type parser struct {
	state  state
	opened byte   // of a control string: the byte after ESC
	raw    []byte // what isn't complete
	read   int64  // bytes, in all
	start  int64  // where what isn't complete begins
	q      sequence
}

// feed takes more bytes.
func (p *parser) feed(b []byte, to parts) {
	for len(b) > 0 {
		n := p.step(b, to)
		p.read += int64(n)
		b = b[n:]
		if p.state == ground {
			p.start = p.read
		}
	}
}

// step takes some of b, and says how many bytes.
func (p *parser) step(b []byte, to parts) int {
	switch p.state {
	case ground:
		return p.first(b, to)
	case partial:
		return p.rest(b[0], to)
	case text, dropping:
		return p.inside(b, to)
	case textEnd, dropEnd:
		return p.afterEscape(b[0], to)
	}
	return p.within(b[0], to)
}

// first takes what begins with b.
func (p *parser) first(b []byte, to parts) int {
	n := 0
	for n < len(b) && b[n] >= 0x20 && b[n] < 0x7f {
		n++
	}
	switch {
	case n > 0:
		to.plain(b[:n])
		return n
	case b[0] == esc:
		p.begin(escape)
		return 1
	case b[0] < 0x80:
		to.control(b[0])
		return 1
	case !utf8.FullRune(b):
		p.raw, p.state = append(p.raw[:0], b...), partial
		return len(b)
	}
	r, size := utf8.DecodeRune(b)
	p.whole(r, b[:size], to)
	return size
}

// whole takes a character. One that isn't UTF-8 is dropped, as browsers' terminals do.
func (p *parser) whole(r rune, raw []byte, to parts) {
	switch {
	case r == utf8.RuneError && len(raw) == 1:
	case r >= 0x80 && r < 0xa0: // the same as ESC and another byte
		p.begin(escape)
		p.within(byte(r-0x40), to)
	default:
		to.char(r, raw)
	}
}

// rest takes the next byte of a character.
func (p *parser) rest(b byte, to parts) int {
	p.raw = append(p.raw, b)
	if !utf8.FullRune(p.raw) {
		return 1
	}
	r, size := utf8.DecodeRune(p.raw)
	p.state = ground
	if size > 1 {
		p.whole(r, bytes.Clone(p.raw), to)
		return 1
	}
	if b < 0x80 || b >= 0xc0 {
		return 0 // it begins something else
	}
	return 1
}

func (p *parser) begin(s state) {
	p.state, p.raw = s, append(p.raw[:0], esc)
}

// within takes the next byte of an escape or control sequence.
func (p *parser) within(b byte, to parts) int {
	switch {
	case b == esc:
		p.abort(to)
		p.begin(escape)
		p.start = p.read
		return 1
	case b == can || b == sub:
		p.abort(to)
		return 1
	case b >= 0x80:
		p.abort(to)
		return 0
	case p.state == overlong:
		if b >= 0x40 && b < 0x7f {
			p.state = ground
		}
		return 1
	}
	p.raw = append(p.raw, b)
	switch {
	case b < 0x20 || b == 0x7f: // carried out before the sequence, see end
	case p.state == escape && b == '[':
		p.state = control
	case p.state == escape && isString(b):
		p.state, p.opened = text, b
	case p.state == escape && b < 0x30:
		p.state = escaped
	case p.state == control && b < 0x40, p.state == escaped && b < 0x30:
	default:
		p.end(to)
		return 1
	}
	if len(p.raw) > maxSequence && p.state != text {
		p.state = overlong
	}
	return 1
}

func isString(b byte) bool { return b == ']' || b == 'P' || b == 'X' || b == '^' || b == '_' }

// abort drops the sequence, but for the controls in it.
func (p *parser) abort(to parts) {
	if p.state != overlong {
		controls(p.raw[1:], to)
	}
	p.state = ground
}

// end hands over a whole sequence.
func (p *parser) end(to parts) {
	p.state = ground
	controls(p.raw[1:], to)
	p.q.read(p.raw)
	to.sequence(&p.q)
}

func controls(raw []byte, to parts) {
	for _, b := range raw {
		if b < 0x20 {
			to.control(b)
		}
	}
}

// inside takes bytes of a control string.
func (p *parser) inside(b []byte, to parts) int {
	for n, c := range b {
		switch {
		case c == bel && p.opened == ']':
			p.keep(b[:n])
			p.endString(to)
			return n + 1
		case c == can || c == sub:
			p.state = ground
			return n + 1
		case c == esc:
			p.keep(b[:n])
			p.state += textEnd - text
			return n + 1
		}
	}
	p.keep(b)
	return len(b)
}

func (p *parser) keep(b []byte) {
	if p.state == text && len(p.raw)+len(b) > MaxString {
		p.state, p.raw = dropping, nil
	}
	if p.state == text {
		p.raw = append(p.raw, b...)
	}
}

// afterEscape takes what follows an ESC in a control string: it ends the string in any case.
func (p *parser) afterEscape(b byte, to parts) int {
	p.state -= textEnd - text
	p.endString(to)
	if b == '\\' {
		return 1
	}
	p.begin(escape)
	p.start = p.read - 1
	return 0
}

func (p *parser) endString(to parts) {
	if p.state == text {
		p.q.readString(p.raw)
		to.sequence(&p.q)
	}
	p.state = ground
	if cap(p.raw) > maxSequence*4 {
		p.raw = nil
	}
}

// offset is the position up to which everything is complete.
func (p *parser) offset() int64 {
	if p.state == dropping || p.state == dropEnd {
		return p.read
	}
	return p.start
}

// dropped says of what control string the rest is to be dropped; 0 if of none.
func (p *parser) dropped() byte {
	if p.state == dropping || p.state == dropEnd {
		return p.opened
	}
	return 0
}

// pending gives the beginning of what isn't complete. Of a control string that is dropped it begins one that is passed over.
func (p *parser) pending() []byte {
	switch p.state {
	case ground:
		return nil
	case textEnd:
		return append(bytes.Clone(p.raw), esc)
	case dropping, dropEnd:
		b := []byte{esc, 'X'} // ends as the others do
		if p.opened == ']' {
			b = []byte{esc, ']', 'x', ';'}
		}
		if p.state == dropEnd {
			b = append(b, esc)
		}
		return b
	}
	return bytes.Clone(p.raw)
}

// resume begins at a position, in a control string that is dropped if dropped isn't 0.
func (p *parser) resume(at int64, dropped byte) {
	p.state, p.read, p.start = ground, at, at
	if dropped != 0 {
		p.state, p.opened = dropping, dropped
	}
}
