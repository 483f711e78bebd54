package screen

// cell is a character on the screen: eight bytes.
type cell struct {
	char int32 // a code point; beyond those an index into glyphs.clusters
	pen  uint16
	half half
}

// half says what a cell has of a character of two cells.
type half byte

const (
	single half = iota
	left
	right
)

// line is a row of cells.
type line struct {
	cells []cell
	used  int  // from here on the cells are blank, and have the default pen
	wraps bool // its text goes on in the next line
}

// grid is one of the two screens that a terminal has: its cells, and the cursor that was saved there.
type grid struct {
	lines []*line
	saved cursor
	left  int // the row of the cursor when the other screen came
}

func newGrid(rows, cols int) *grid {
	g := &grid{lines: make([]*line, rows), saved: cursor{sets: plainSets}}
	for i := range g.lines {
		g.lines[i] = newLine(cols)
	}
	return g
}

func newLine(cols int) *line {
	l := &line{cells: make([]cell, cols), used: cols}
	l.clear(0, cols, 0)
	return l
}

// clear blanks the cells from one column up to another, with a pen's background.
func (l *line) clear(from, to int, pen uint16) {
	if from >= to {
		return
	}
	l.part(from)
	l.part(to)
	l.blank(from, to, pen)
	if to == len(l.cells) {
		l.wraps = false
	}
}

func (l *line) blank(from, to int, pen uint16) {
	switch {
	case pen != 0:
		l.used = max(l.used, to)
	case to >= l.used:
		to = l.used
		l.used = min(l.used, from)
	}
	for i := from; i < to; i++ {
		l.cells[i] = cell{' ', pen, single}
	}
}

// begins has a line be the first one of its text.
func (g *grid) begins(y int) {
	if y > 0 {
		g.lines[y-1].wraps = false
	}
}

// part blanks a character of two cells whose halves are on the two sides of a column.
func (l *line) part(x int) {
	if x > 0 && x < len(l.cells) && l.cells[x].half == right {
		l.cells[x-1].char, l.cells[x-1].half = ' ', single
		l.cells[x].char, l.cells[x].half = ' ', single
	}
}

// insert moves what is from a column on to the right, and blanks n cells there.
func (l *line) insert(x, n int, pen uint16) {
	n = min(n, len(l.cells)-x)
	l.part(x)
	l.part(len(l.cells) - n)
	copy(l.cells[x+n:], l.cells[x:])
	l.used = len(l.cells)
	l.blank(x, x+n, pen)
	l.wraps = false
}

// remove takes n cells out, and moves those behind them to the left.
func (l *line) remove(x, n int, pen uint16) {
	n = min(n, len(l.cells)-x)
	l.part(x)
	l.part(x + n)
	copy(l.cells[x:], l.cells[x+n:])
	l.used = len(l.cells)
	l.blank(len(l.cells)-n, len(l.cells), pen)
	l.wraps = false
}

// scroll moves lines up by n, between two that are the first and the last of a part; down if n is negative.
func (g *grid) scroll(top, bottom, n int, pen uint16) {
	size := bottom - top + 1
	up := n > 0
	n = min(max(n, -n), size)
	region := g.lines[top : bottom+1]
	g.begins(top)
	region[size-1].wraps = false // what follows stays, or the line goes
	for range n {
		if up {
			first := region[0]
			copy(region, region[1:])
			region[size-1] = first
			first.clear(0, len(first.cells), pen)
			region[size-1].wraps = false
			continue
		}
		last := region[size-1]
		copy(region[1:], region)
		region[0] = last
		last.clear(0, len(last.cells), pen)
		region[0].wraps = false
		region[size-1].wraps = false
	}
}

// resize cuts the grid, or adds blank cells to it. Lines go at the top if the one at y would have no place,
// else at the bottom; off is how many went at the top. Text isn't wrapped again.
func (g *grid) resize(rows, cols, y int) (off int) {
	if off = max(0, y-rows+1); off > 0 {
		g.lines = g.lines[off:]
	}
	g.lines = append([]*line(nil), g.lines[:min(rows, len(g.lines))]...)
	for i := range g.lines {
		g.lines[i].resize(cols)
	}
	for len(g.lines) < rows {
		g.lines = append(g.lines, newLine(cols))
	}
	g.lines[rows-1].wraps = false
	g.left = min(max(0, g.left-off), rows-1)
	g.saved.y, g.saved.x = min(max(0, g.saved.y-off), rows-1), min(g.saved.x, cols-1)
	return off
}

func (l *line) resize(cols int) {
	was := l.cells
	if len(was) == cols {
		return
	}
	l.wraps = false
	if cols < len(was) {
		l.part(cols)
		l.cells, l.used = append([]cell(nil), was[:cols]...), cols
		return
	}
	l.cells, l.used = make([]cell, cols), cols
	copy(l.cells, was)
	l.blank(len(was), cols, 0)
}
