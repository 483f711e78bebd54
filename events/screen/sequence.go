package screen

import "bytes"

// maxParams is how many parameters are read.
const maxParams = 32

// sequence is a whole escape sequence, control sequence or control string.
type sequence struct {
	raw     []byte
	opened  byte // '[' of a control sequence, ']' 'P' 'X' '^' '_' of a control string, 0 of an escape sequence
	private byte // < = > ?
	inter   byte // the first intermediate byte, or 0
	final   byte
	params  []param
	data    []byte // of a control string: what is between its ends
}

// param is a parameter. One that a colon precedes belongs to the one before.
type param struct {
	n     int // -1 if it isn't given
	below bool
}

// read takes a sequence apart.
func (q *sequence) read(raw []byte) {
	*q = sequence{raw: raw, params: q.params[:0]}
	b := raw[1:]
	if b[0] == '[' {
		q.opened = '['
		b = b[1:]
	}
	q.final = b[len(b)-1]
	q.header(b[:len(b)-1])
}

// header reads parameters and intermediate bytes.
func (q *sequence) header(b []byte) {
	at, below := -1, false
	given := false
	for i, c := range b {
		switch {
		case c >= '0' && c <= '9':
			given = true
			at = min(max(at, 0)*10+int(c-'0'), 1<<20)
		case c == ';' || c == ':':
			q.add(param{at, below})
			at, below, given = -1, c == ':', true
		case c >= '<' && c <= '?' && i == 0:
			q.private = c
		case c >= 0x20 && c < 0x30 && q.inter == 0:
			q.inter = c
		}
	}
	if given {
		q.add(param{at, below})
	}
}

func (q *sequence) add(p param) {
	if len(q.params) < maxParams {
		q.params = append(q.params, p)
	}
}

// readString takes a control string apart. raw has no end.
func (q *sequence) readString(raw []byte) {
	*q = sequence{raw: raw, params: q.params[:0], opened: raw[1], data: raw[2:]}
	if q.opened != 'P' {
		return
	}
	for i, c := range q.data {
		if c >= 0x40 && c < 0x7f {
			q.final = c
			q.header(q.data[:i])
			q.data = q.data[i+1:]
			return
		}
	}
}

// at gives a parameter, or def if it isn't given.
func (q *sequence) at(i, def int) int {
	if i >= len(q.params) || q.params[i].n < 0 {
		return def
	}
	return q.params[i].n
}

// count gives a parameter that is 1 if it isn't given or 0.
func (q *sequence) count(i int) int { return max(1, q.at(i, 1)) }

// number splits an operating system command into its number and the rest; -1 if it has none.
func (q *sequence) number() (n int, rest []byte) {
	head, rest, _ := bytes.Cut(q.data, []byte{';'})
	if len(head) == 0 || len(head) > 6 {
		return -1, q.data
	}
	for _, c := range head {
		if c < '0' || c > '9' {
			return -1, q.data
		}
		n = n*10 + int(c-'0')
	}
	return n, rest
}
