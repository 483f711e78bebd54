package screen

// plain implements parts.
func (s *Screen) plain(p []byte) {
	if s.area.cursor.sets[s.area.cursor.shift] != 'B' || s.modes.has(insert) {
		for _, b := range p {
			s.print(s.area.cursor.mapped(b), 1)
		}
		return
	}
	for len(p) > 0 {
		s.wrap()
		l := s.line()
		x := s.area.cursor.x
		n := min(len(p), s.area.cols-x)
		l.part(x)
		l.part(x + n)
		row := l.cells[x : x+n]
		for i, b := range p[:n] {
			row[i] = cell{int32(b), s.ink, single}
		}
		l.used = max(l.used, x+n)
		s.last, s.lastWidth, s.lastX = int32(p[n-1]), 1, x+n-1
		s.glyphs.hold -= n
		p = p[n:]
		s.advance(n)
		if s.area.cursor.x == s.area.cols-1 && !s.modes.has(autowrap) && len(p) > 0 {
			p = p[len(p)-1:] // each of the others is written over
		}
	}
}

// advance moves the cursor past what was printed.
func (s *Screen) advance(n int) {
	if s.area.cursor.x += n; s.area.cursor.x >= s.area.cols {
		s.area.cursor.x = s.area.cols - 1
		s.area.cursor.wrap = s.modes.has(autowrap)
	}
}

// wrap begins a line if the one before is full.
func (s *Screen) wrap() {
	if s.area.cursor.wrap {
		full := s.line()
		s.area.cursor.x = 0
		s.index()
		full.wraps = s.line() != full
	}
}

func (s *Screen) line() *line { return s.shown().lines[s.area.cursor.y] }

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
	if w > s.area.cols {
		return
	}
	s.wrap()
	if s.area.cursor.x+w > s.area.cols { // there is room for one half
		if !s.modes.has(autowrap) {
			return
		}
		s.line().clear(s.area.cursor.x, s.area.cols, s.ink)
		s.area.cursor.wrap = true
		s.wrap()
	}
	l, x := s.line(), s.area.cursor.x
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
	s.last, s.lastWidth, s.lastX = char, w, x
	s.glyphs.hold -= w
	s.advance(w)
}

// combine adds a mark to the character before the cursor.
func (s *Screen) combine(r rune) {
	l, x := s.line(), s.area.cursor.x
	switch {
	case s.last != 0:
		x = s.lastX
	case !s.area.cursor.wrap:
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
	if s.last != 0 {
		s.last = char
	}
	if l.cells[x].half == left {
		l.cells[x+1].char = char
	}
}

// lines are the characters from _ to ~ of the set of lines and boxes.
var lines = []rune(" ◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·")

// mapped is what a byte means in the character set in use.
func (c *cursor) mapped(b byte) rune {
	switch set := c.sets[c.shift]; {
	case set == '0' && b >= '_' && b < 0x7f:
		return lines[b-'_']
	case set == 'A' && b == '#':
		return '£'
	}
	return rune(b)
}

// control implements parts.
func (s *Screen) control(b byte) {
	s.last = 0
	switch b {
	case '\b':
		if s.area.cursor.x > 0 {
			s.area.cursor.x--
		}
		s.area.cursor.wrap = false
	case '\t':
		s.area.tab(1)
	case '\n', '\v', '\f':
		s.index()
		if s.modes.has(newline) {
			s.area.cursor.x = 0
		}
	case '\r':
		s.area.cursor.x, s.area.cursor.wrap = 0, false
	case 0x0e:
		s.area.cursor.shift = 1
	case 0x0f:
		s.area.cursor.shift = 0
	}
}

// index moves the cursor down, and scrolls at the end of the region.
func (s *Screen) index() {
	s.area.cursor.wrap = false
	if s.area.cursor.y == s.area.bottom {
		s.gone.leave(s, s.area.top, 1)
		s.shown().scroll(s.area.top, s.area.bottom, 1, s.back)
	} else if s.area.cursor.y < s.area.rows-1 {
		s.area.cursor.y++
	}
}

func (s *Screen) reverseIndex() {
	s.area.cursor.wrap = false
	if s.area.cursor.y == s.area.top {
		s.shown().scroll(s.area.top, s.area.bottom, -1, s.back)
	} else if s.area.cursor.y > 0 {
		s.area.cursor.y--
	}
}
