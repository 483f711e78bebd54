package statekv

import (
	"bytes"

	"github.com/diapause/diapause/schemas"
)

// scan goes through compact JSON. It knows what encoding/json writes, and no more:
// what it doesn't understand it says so of, and never guesses.
type scan struct {
	data []byte
	at   int
}

// take steps over one byte, if it is the next.
func (s *scan) take(c byte) bool {
	if s.at >= len(s.data) || s.data[s.at] != c {
		return false
	}
	s.at++
	return true
}

// text reads a string that holds no escapes.
func (s *scan) text() (inner []byte, ok bool) {
	if !s.take('"') {
		return nil, false
	}
	end := bytes.IndexByte(s.data[s.at:], '"')
	if end < 0 {
		return nil, false
	}
	inner = s.data[s.at : s.at+end]
	s.at += end + 1
	return inner, bytes.IndexByte(inner, '\\') < 0
}

// value steps over one value of any kind.
func (s *scan) value() (raw []byte, ok bool) {
	begin := s.at
	for depth := 0; s.at < len(s.data); s.at++ {
		switch s.data[s.at] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return s.data[begin:s.at], s.at > begin
			}
			if depth--; depth == 0 {
				s.at++
				return s.data[begin:s.at], true
			}
		case '"':
			if !s.string() {
				return nil, false
			}
			if depth == 0 {
				return s.data[begin:s.at], true
			}
			s.at--
		case ',':
			if depth == 0 {
				return s.data[begin:s.at], s.at > begin
			}
		}
	}
	return nil, false
}

// string steps over a string with any content.
func (s *scan) string() bool {
	for s.at++; ; s.at++ {
		end := bytes.IndexByte(s.data[s.at:], '"')
		if end < 0 {
			return false
		}
		s.at += end
		back := 0
		for s.data[s.at-1-back] == '\\' {
			back++
		}
		if back%2 == 0 {
			s.at++
			return true
		}
	}
}

func text(raw []byte, to *string) bool {
	inner, ok := unquoted(raw)
	if ok {
		*to = string(inner)
	}
	return ok
}

// unquoted is what stands in a string without escapes.
func unquoted(raw []byte) (inner []byte, ok bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return nil, false
	}
	inner = raw[1 : len(raw)-1]
	return inner, bytes.IndexByte(inner, '\\') < 0
}

// words are texts that many records have, each kept once: a reader of a million would
// make as many copies.
type words map[string]string

// wordsAtMost bounds them.
const wordsAtMost = 10000

func (w words) text(raw []byte, to *string) bool {
	inner, ok := unquoted(raw)
	if !ok {
		return false
	}
	if *to, ok = w[string(inner)]; ok {
		return true
	}
	if len(w) >= wordsAtMost {
		clear(w)
	}
	*to = string(inner)
	w[*to] = *to
	return true
}

func number(raw []byte, to *uint64) bool {
	var n uint64
	for _, c := range raw {
		if c < '0' || c > '9' || n > 1<<59 {
			return false
		}
		n = n*10 + uint64(c-'0')
	}
	*to = n
	return len(raw) > 0
}

// state reads a state, without making a string of its own for each session.
func state(raw []byte, to *schemas.State) bool {
	switch string(raw) {
	case `"running"`:
		*to = schemas.Running
	case `"suspended"`:
		*to = schemas.Suspended
	default:
		return text(raw, (*string)(to))
	}
	return true
}
