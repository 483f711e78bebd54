package screen

// plain implements parts.
func (s *Screen) plain(p []byte) {
	if s.cursor.sets[s.cursor.shift] != 'B' || s.modes.has(insert) {
		for _, b := range p {
			s.print(s.mapped(b), 1)
		}
		return
	}
	for len(p) > 0 {
		s.wrap()
		l := s.line()
		x := s.cursor.x
		n := min(len(p), s.cols-x)
		l.part(x)
		l.part(x + n)
		row := l.cells[x : x+n]
		for i, b := range p[:n] {
			row[i] = cell{int32(b), s.ink, single}
		}
		l.used = max(l.used, x+n)
		s.last, s.lastWidth = int32(p[n-1]), 1
		p = p[n:]
		s.advance(n)
		if s.cursor.x == s.cols-1 && !s.modes.has(autowrap) && len(p) > 0 {
			p = p[len(p)-1:] // each of the others is written over
		}
	}
}

// advance moves the cursor past what was printed.
func (s *Screen) advance(n int) {
	if s.cursor.x += n; s.cursor.x >= s.cols {
		s.cursor.x = s.cols - 1
		s.cursor.wrap = s.modes.has(autowrap)
	}
}

// wrap begins a line if the one before is full.
func (s *Screen) wrap() {
	if s.cursor.wrap {
		s.line().wraps = s.cursor.y < s.rows-1 || s.cursor.y == s.bottom
		s.cursor.x = 0
		s.index()
	}
}

func (s *Screen) line() *line { return s.shown().lines[s.cursor.y] }

// char implements parts.
func (s *Screen) char(r rune, _ []byte) {
	w := width(r)
	if w == 0 {
		s.combine(r)
		return
	}
	s.print(r, w)
}

// print prints a character of one or two cells.
func (s *Screen) print(char rune, w int) {
	if w > s.cols {
		return
	}
	s.wrap()
	if s.cursor.x+w > s.cols { // there is room for one half
		if !s.modes.has(autowrap) {
			return
		}
		s.line().clear(s.cursor.x, s.cols, s.back)
		s.cursor.wrap = true
		s.wrap()
	}
	l, x := s.line(), s.cursor.x
	if s.modes.has(insert) {
		l.insert(x, w, s.back)
	}
	l.part(x)
	l.part(x + w)
	l.used = max(l.used, x+w)
	l.cells[x] = cell{char, s.ink, single}
	if w == 2 {
		l.cells[x].half = left
		l.cells[x+1] = cell{char, s.ink, right}
	}
	s.last, s.lastWidth = char, w
	s.advance(w)
}

// combine adds a mark to the character before the cursor.
func (s *Screen) combine(r rune) {
	l, x := s.line(), s.cursor.x
	if !s.cursor.wrap {
		x--
	}
	if x < 0 {
		return
	}
	if l.cells[x].half == right {
		x--
	}
	text := s.glyphs.text(l.cells[x].char) + string(r)
	if len(text) > maxCluster {
		return
	}
	char, ok := s.glyphs.cluster(text)
	if !ok {
		s.sweep()
		s.useInk()
		if char, ok = s.glyphs.cluster(text); !ok {
			return
		}
	}
	l.used = max(l.used, x+1)
	l.cells[x].char = char
	if l.cells[x].half == left {
		l.cells[x+1].char = char
	}
}

// lines are the characters from _ to ~ of the set of lines and boxes.
var lines = []rune(" ◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·")

// mapped is what a byte means in the character set in use.
func (s *Screen) mapped(b byte) rune {
	switch set := s.cursor.sets[s.cursor.shift]; {
	case set == '0' && b >= '_' && b < 0x7f:
		return lines[b-'_']
	case set == 'A' && b == '#':
		return '£'
	}
	return rune(b)
}

// control implements parts.
func (s *Screen) control(b byte) {
	switch b {
	case '\b':
		if s.cursor.x > 0 {
			s.cursor.x--
		}
		s.cursor.wrap = false
	case '\t':
		s.tab(1)
	case '\n', '\v', '\f':
		s.index()
		if s.modes.has(newline) {
			s.cursor.x = 0
		}
	case '\r':
		s.cursor.x, s.cursor.wrap = 0, false
	case 0x0e:
		s.cursor.shift = 1
	case 0x0f:
		s.cursor.shift = 0
	}
}

// tab moves the cursor to a later stop, or to an earlier one.
func (s *Screen) tab(n int) {
	for ; n > 0 && s.cursor.x < s.cols-1; n-- {
		for s.cursor.x++; s.cursor.x < s.cols-1 && !s.tabs[s.cursor.x]; s.cursor.x++ {
		}
	}
	for ; n < 0 && s.cursor.x > 0; n++ {
		s.cursor.wrap = false
		for s.cursor.x--; s.cursor.x > 0 && !s.tabs[s.cursor.x]; s.cursor.x-- {
		}
	}
}

// index moves the cursor down, and scrolls at the end of the region.
func (s *Screen) index() {
	s.cursor.wrap = false
	if s.cursor.y == s.bottom {
		s.shown().scroll(s.top, s.bottom, 1, s.back)
	} else if s.cursor.y < s.rows-1 {
		s.cursor.y++
	}
}

func (s *Screen) reverseIndex() {
	s.cursor.wrap = false
	if s.cursor.y == s.top {
		s.shown().scroll(s.top, s.bottom, -1, s.back)
	} else if s.cursor.y > 0 {
		s.cursor.y--
	}
}
