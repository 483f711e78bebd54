package screen

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxTitle bounds a title, in bytes.
const maxTitle = 1 << 10

// names are what a program calls the window, and the colours that it has set.
type names struct {
	title, icon string
	titles      []string // that were put aside
	colors      map[int]string
}

// maxTitles is how many titles may be put aside.
const maxTitles = 10

// command carries out an operating system command.
func (w *names) command(n int, rest []byte) {
	switch n {
	case 0:
		w.title, w.icon = shown(rest), shown(rest)
	case 1:
		w.icon = shown(rest)
	case 2:
		w.title = shown(rest)
	case 4:
		w.palette(rest)
	case 10, 11, 12:
		for _, spec := range bytes.Split(rest, []byte{';'}) {
			w.color(colorBase+n, string(spec))
			n++
		}
	case 104:
		w.forget(rest)
	case 110, 111, 112:
		delete(w.colors, colorBase+n-100)
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
func (w *names) palette(rest []byte) {
	words := strings.Split(string(rest), ";")
	for i := 0; i+1 < len(words); i += 2 {
		if n, err := strconv.Atoi(words[i]); err == nil && n >= 0 && n < 256 {
			w.color(n, words[i+1])
		}
	}
}

// color sets one of the terminal's colours, unless spec asks for it.
func (w *names) color(n int, spec string) {
	const most = 32
	if n > colorBase+12 || spec == "" || len(spec) > most || strings.ContainsFunc(spec, func(r rune) bool {
		return r > 0x7f || !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '#' && r != ':' && r != '/' && r != '.'
	}) {
		return
	}
	if w.colors == nil {
		w.colors = map[int]string{}
	}
	w.colors[n] = spec
}

// forget gives colours of the palette their first values.
func (w *names) forget(rest []byte) {
	for _, word := range strings.Split(string(rest), ";") {
		if n, err := strconv.Atoi(word); err == nil {
			delete(w.colors, n)
		}
	}
	if len(rest) > 0 {
		return
	}
	for n := range w.colors {
		if n < colorBase {
			delete(w.colors, n)
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
	s.area.cursor.pen.link = i
	s.useInk()
}

// window puts titles aside, and brings them back.
func (w *names) window(q *sequence) {
	if q.at(1, 0) == 1 { // the icon's alone
		return
	}
	switch q.at(0, 0) {
	case 22:
		if len(w.titles) == maxTitles {
			w.titles = slices.Delete(w.titles, 0, 1)
		}
		w.titles = append(w.titles, w.title)
	case 23:
		if n := len(w.titles); n > 0 {
			w.title, w.titles = w.titles[n-1], w.titles[:n-1]
		}
	}
}
