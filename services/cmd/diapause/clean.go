package main

import (
	"fmt"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"
)

// screen prints what may hold texts of sessions and strangers: names of processes,
// arguments, reasons. What a terminal would obey, or show in another order, is written as an
// escape. Streams of sessions (attach, exec, logs, output --raw, cp) don't go through it.
// The escapes are those of JSON, so that JSON stays JSON.
type screen struct {
	to func() *os.File
}

// The screens of all verbs.
var (
	printed    = screen{func() *os.File { return os.Stdout }}
	complained = screen{func() *os.File { return os.Stderr }}
)

// Write prints a text, whose characters it doesn't find divided between two calls.
func (s screen) Write(text []byte) (int, error) {
	if _, err := s.to().WriteString(clean(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

func clean(text string) string {
	if strings.IndexFunc(text, hostile) < 0 && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for _, r := range text { // a byte that is no text is unicode.ReplacementChar
		if hostile(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// hostile reports whether a character isn't shown but obeyed: by a terminal, or by what
// orders text that is written from right to left.
func hostile(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}
