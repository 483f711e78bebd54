package screen

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxTitle bounds a title, in bytes.
const maxTitle = 1 << 10

// command carries out an operating system command.
func (s *Screen) command(q *sequence) {
	n, rest := q.number()
	switch n {
	case 0:
		s.title, s.icon = shown(rest), shown(rest)
	case 1:
		s.icon = shown(rest)
	case 2:
		s.title = shown(rest)
	case 4:
		s.palette(rest)
	case 8:
		s.linkTo(rest)
	case 10, 11, 12:
		for _, spec := range bytes.Split(rest, []byte{';'}) {
			s.color(colorBase+n, string(spec))
			n++
		}
	case 104:
		s.forget(rest)
	case 110, 111, 112:
		delete(s.colors, colorBase+n-100)
	}
}

// shown is text of a program without what isn't shown.
func shown(b []byte) string {
	text := strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsControl(r) {
			return -1
		}
		return r
	}, string(b[:min(len(b), maxTitle)]))
	return text
}

// colorBase is where the colours of text, background and cursor are among those of the palette.
const colorBase = 1000

// palette sets colours by their numbers.
func (s *Screen) palette(rest []byte) {
	words := strings.Split(string(rest), ";")
	for i := 0; i+1 < len(words); i += 2 {
		if n, err := strconv.Atoi(words[i]); err == nil && n >= 0 && n < 256 {
			s.color(n, words[i+1])
		}
	}
}

// color sets one of the terminal's colours, unless spec asks for it.
func (s *Screen) color(n int, spec string) {
	const most = 32
	if n > colorBase+12 || spec == "" || len(spec) > most || strings.ContainsFunc(spec, func(r rune) bool {
		return r > 0x7f || !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '#' && r != ':' && r != '/' && r != '.'
	}) {
		return
	}
	if s.colors == nil {
		s.colors = map[int]string{}
	}
	s.colors[n] = spec
}

// forget gives colours of the palette their first values.
func (s *Screen) forget(rest []byte) {
	for _, word := range strings.Split(string(rest), ";") {
		if n, err := strconv.Atoi(word); err == nil {
			delete(s.colors, n)
		}
	}
	if len(rest) > 0 {
		return
	}
	for n := range s.colors {
		if n < colorBase {
			delete(s.colors, n)
		}
	}
}

// linkTo has what is printed be a link. rest is "params;uri".
func (s *Screen) linkTo(rest []byte) {
	_, uri, _ := bytes.Cut(rest, []byte{';'})
	text := shown(rest)
	if len(uri) == 0 || len(rest) > maxLink || len(text) != len(rest) {
		text = ""
	}
	i, ok := s.glyphs.link(text)
	if !ok {
		s.sweep()
		if i, ok = s.glyphs.link(text); !ok {
			i = 0
		}
	}
	s.cursor.pen.link = i
	s.useInk()
}
