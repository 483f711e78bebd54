package recording

import (
	"bytes"
	"time"
	"unicode/utf8"
)

// parseOwn reads a line as appendLine writes them, in one pass: to look something up in a recording takes thousands of them. ok is false
// for any other line, of which this says nothing.
func parseOwn(line []byte) (after time.Duration, code string, text []byte, ok bool) {
	after, line, ok = ownInterval(line)
	if !ok {
		return 0, "", nil, false
	}
	n := bytes.IndexByte(line, '"')
	if n < 1 || n > 4 || !bytes.HasPrefix(line[n:], []byte(`","`)) {
		return 0, "", nil, false
	}
	for _, c := range line[:n] {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return 0, "", nil, false
		}
	}
	code, line = string(line[:n]), line[n+3:]
	line, ok = bytes.CutSuffix(line, []byte(`"]`))
	if !ok || !utf8.Valid(line) {
		return 0, "", nil, false
	}
	text, ok = ownText(line)
	return after, code, text, ok
}

// ownInterval reads [SECONDS.MICROSECONDS," and gives the rest.
func ownInterval(line []byte) (after time.Duration, rest []byte, ok bool) {
	const most = 9 // digits of the seconds
	if len(line) == 0 || line[0] != '[' {
		return 0, nil, false
	}
	line = line[1:]
	point := bytes.IndexByte(line[:min(len(line), most+1)], '.')
	if point < 1 || len(line) < point+9 || line[0] == '0' && point > 1 || line[point+7] != ',' || line[point+8] != '"' {
		return 0, nil, false
	}
	us := time.Duration(0)
	for i, c := range line[:point+7] {
		if i == point {
			continue
		}
		if c < '0' || c > '9' {
			return 0, nil, false
		}
		us = us*10 + time.Duration(c-'0')
	}
	return us * time.Microsecond, line[point+9:], true
}

// ownText reads what is in a string, which is UTF-8.
func ownText(in []byte) (text []byte, ok bool) {
	text = make([]byte, 0, len(in))
	for {
		n := 0
		for n < len(in) && in[n] != '\\' && in[n] != '"' && in[n] >= ' ' {
			n++
		}
		text = append(text, in[:n]...)
		if in = in[n:]; len(in) == 0 {
			return text, true
		}
		if in[0] != '\\' || len(in) < 2 {
			return nil, false
		}
		size := 2
		switch c := in[1]; c {
		case '"', '\\', '/':
			text = append(text, c)
		case 'b':
			text = append(text, '\b')
		case 'f':
			text = append(text, '\f')
		case 'n':
			text = append(text, '\n')
		case 'r':
			text = append(text, '\r')
		case 't':
			text = append(text, '\t')
		case 'u':
			r, found := hexRune(in[2:])
			if !found || r >= 0xd800 && r < 0xe000 {
				return nil, false
			}
			text = utf8.AppendRune(text, r)
			size = 6
		default:
			return nil, false
		}
		in = in[size:]
	}
}

// hexRune reads four digits.
func hexRune(in []byte) (r rune, ok bool) {
	if len(in) < 4 {
		return 0, false
	}
	for _, c := range in[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
