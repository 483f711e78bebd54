package redact

import (
	"cmp"
	"slices"
	"unicode/utf8"
)

// Mask fills ranges of b, which begins at a position, with as many bytes that take as many columns. Line ends stay. The ranges are
// in order, as Merge gives them: those elsewhere take no time, since there may be many of them, and many pieces.
func Mask(b []byte, at int64, all []Range) {
	first, _ := slices.BinarySearchFunc(all, at, func(r Range, at int64) int { return cmp.Compare(r.To, at+1) })
	for _, r := range all[first:] {
		if r.From >= at+int64(len(b)) {
			break
		}
		from, to := max(r.From-at, 0), min(r.To-at, int64(len(b)))
		if from < to {
			fill(b[from:to])
		}
	}
}

// Masked takes what match finds out of a text.
func Masked(text string, match Matcher) string {
	all := Merge(match([]byte(text)))
	if len(all) == 0 {
		return text
	}
	b := []byte(text)
	Mask(b, 0, all)
	return string(b)
}

// Bytes takes what match finds out of all that a terminal was sent, and says whether there was something.
func Bytes(b []byte, match Matcher) bool {
	var found []Range
	f := NewFinder(match, func(r Range, _ bool) { found = append(found, r) })
	f.Write(b)
	f.End()
	found = Merge(found)
	Mask(b, 0, found)
	return len(found) > 0
}

// fill replaces each character by one of as many bytes and columns.
func fill(b []byte) {
	for len(b) > 0 {
		c, n := utf8.DecodeRune(b)
		copy(b, []byte(cover(c, n)))
		b = b[n:]
	}
}

// cover gives what has the size of a character.
func cover(c rune, n int) string {
	switch {
	case c == '\n' || c == '\r' || c == '\t':
		return string(c)
	case n == 2:
		return "·"
	case n == 3 && (c < 0x1100 || c > 0x115f && c < 0x2e80 || c >= 0xa4d0 && c < 0xac00 || c > 0xd7a3 && c < 0xf900 || c > 0xfaff && c < 0xfe30 || c > 0xff60):
		return "█"
	case n == 3:
		return "＊" // two columns
	case n == 4:
		return "🔒" // likewise
	}
	return "*"
}
