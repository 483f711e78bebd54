package marks

import "bytes"

const (
	bel = 0x07
	can = 0x18
	sub = 0x1a
	esc = 0x1b
)

// maxMark bounds what is kept of a mark, in bytes: the text of a command in which each byte is escaped.
const maxMark = 4*MaxText + 1<<10

type state byte

const (
	ground   state = iota
	escape         // after ESC
	skipping       // in a control string that isn't a mark's
	mark           // in what may be one
	ended          // after an ESC in either
)

// parser takes marks out of bytes.
type parser struct {
	state state
	raw   []byte // of a mark, after ESC ]
	cut   bool   // it was longer
	start int64  // where its ESC is
}

// found is a mark as it was printed.
type found struct {
	text       []byte // valid until the parser takes more
	cut        bool
	start, end int64
}

// feed takes bytes that are at a position, and calls fn with each mark. between gets the bytes that are in none.
func (p *parser) feed(b []byte, at int64, fn func(found), between func([]byte)) {
	for len(b) > 0 {
		n := p.step(b, at, fn, between)
		b, at = b[n:], at+int64(n)
	}
}

// step takes some of b, and says how many bytes.
func (p *parser) step(b []byte, at int64, fn func(found), between func([]byte)) int {
	switch p.state {
	case ground:
		n := bytes.IndexByte(b, esc)
		if n < 0 {
			between(b)
			return len(b)
		}
		between(b[:n])
		p.state, p.start = escape, at+int64(n)
		return n + 1
	case escape:
		return p.afterEscape(b[0], between)
	case ended:
		if b[0] != '\\' { // the string is given up, and this is of another sequence
			p.state, p.raw, p.start = escape, p.raw[:0], at-1
			return 0
		}
		p.end(at+1, fn)
		return 1
	}
	for n, c := range b {
		switch c {
		case bel:
			p.keep(b[:n])
			p.end(at+int64(n)+1, fn)
			return n + 1
		case can, sub:
			p.state, p.raw = ground, p.raw[:0]
			return n + 1
		case esc:
			p.keep(b[:n])
			p.state = ended
			return n + 1
		}
	}
	p.keep(b)
	return len(b)
}

// afterEscape takes what follows an ESC. Only ESC ] begins a mark.
func (p *parser) afterEscape(b byte, between func([]byte)) int {
	switch b {
	case ']':
		p.state, p.raw, p.cut = mark, p.raw[:0], false
		return 1
	case esc:
		p.start++
		return 1
	case 'P', 'X', '^', '_': // control strings, in which no mark is
		p.state, p.raw = skipping, p.raw[:0]
		return 1
	}
	p.state = ground
	between([]byte{esc}) // what follows comes by itself
	return 0
}

// prefixes are how the control strings begin that are marks.
var prefixes = [][]byte{[]byte("133;"), []byte("633;"), []byte("7;")}

// keep keeps a part of a mark; what can't be one any more is skipped.
func (p *parser) keep(b []byte) {
	if p.state != mark {
		return
	}
	room := maxMark - len(p.raw)
	p.cut = p.cut || len(b) > room
	p.raw = append(p.raw, b[:min(len(b), room)]...)
	for _, prefix := range prefixes {
		n := min(len(prefix), len(p.raw))
		if bytes.Equal(prefix[:n], p.raw[:n]) {
			return
		}
	}
	p.state, p.raw = skipping, p.raw[:0]
}

// end hands over a whole mark.
func (p *parser) end(at int64, fn func(found)) {
	if len(p.raw) > 0 {
		fn(found{p.raw, p.cut, p.start, at})
	}
	p.state, p.raw = ground, p.raw[:0]
	if cap(p.raw) > 1<<10 {
		p.raw = nil
	}
}
