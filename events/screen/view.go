package screen

import (
	"fmt"
	"math"
	"strings"
	"unicode"
)

// View shows a screen on a terminal, again and again, each time painting the rows that changed. Of a screen that is larger it
// shows a part, with the cursor. The terminal gets nothing of the program but characters and their looks: no title, link or
// mode, nothing that it answers.
type View struct {
	rows, cols int
	was        []string // what the terminal's rows have
	painted    bool
}

// NewView makes one for a terminal of a size.
func NewView(rows, cols int) *View {
	v := &View{}
	v.Resize(rows, cols)
	return v
}

// Resize says that the terminal has another size.
func (v *View) Resize(rows, cols int) {
	v.rows, v.cols = bounded(rows, cols)
	v.was, v.painted = make([]string, v.rows), false
}

// Fits reports whether the terminal shows all of a screen.
func (v *View) Fits(s *Screen) bool { return v.rows >= s.area.rows && v.cols >= s.area.cols }

// Update gives what makes the terminal show a screen, and note over the end of its last row.
func (v *View) Update(s *Screen, note string) []byte {
	p := painter{glyphs: s.glyphs, most: math.MaxInt, plain: true}
	p.text("\x1b[?25l\x1b[m")
	if !v.painted {
		p.text("\x1b[2J")
		v.painted = true
	}
	from := max(0, s.area.cursor.y-v.rows+1)
	for y := range v.rows {
		row := ""
		if from+y < s.area.rows {
			row = v.row(s.glyphs, s.shown().lines[from+y].cells)
		}
		if y == v.rows-1 && note != "" {
			text := " " + note[:min(len(note), max(v.cols-2, 0))] + " "
			row += fmt.Sprintf("\x1b[%dG\x1b[7m%s\x1b[m", max(v.cols-len(text), 0)+1, text)
		}
		if row != v.was[y] {
			p.textf("\x1b[%dH\x1b[2K%s", y+1, row)
			v.was[y] = row
		}
	}
	x := min(s.area.cursor.x, v.cols-1)
	p.textf("\x1b[%d;%dH\x1b[?25%c", s.area.cursor.y-from+1, x+1, switching(s.modes.has(visible)))
	return p.b
}

// row paints a row as far as it fits, with the default pen before and after it.
func (v *View) row(g *glyphs, cells []cell) string {
	if len(cells) > v.cols {
		cells = cells[:v.cols]
		if last := len(cells) - 1; cells[last].half == left {
			cells = cells[:last]
		}
	}
	for len(cells) > 0 && cells[len(cells)-1] == (cell{' ', 0, single}) {
		cells = cells[:len(cells)-1]
	}
	p := painter{glyphs: g, most: math.MaxInt, plain: true}
	p.use(p.row(cells, 0), 0)
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Bidi_Control, r) { // it would have the row be read in another order
			return -1
		}
		return r
	}, string(p.b))
}

// Rows gives what prints the rows of a screen, with their colours, one below the other.
func (v *View) Rows(s *Screen) string {
	var rows []string
	for _, l := range s.shown().lines {
		rows = append(rows, v.row(s.glyphs, l.cells))
	}
	text := strings.TrimRight(strings.Join(rows, "\r\n"), "\r\n")
	if text == "" {
		return ""
	}
	return text + "\r\n"
}
