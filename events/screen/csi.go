package screen

// sequence implements parts.
func (s *Screen) sequence(q *sequence) {
	if !q.keepsLast() {
		s.last = 0
	}
	s.answer(q)
	switch q.opened {
	case 0:
		s.escape(q)
	case '[':
		s.csi(q)
	case ']':
		s.command(q)
	}
}

// keepsLast reports whether the character before may be repeated after the sequence.
func (q *sequence) keepsLast() bool {
	return q.opened == '[' && (q.final == 'b' || q.final == 'm') || q.asks()
}

// escape carries out an escape sequence.
func (s *Screen) escape(q *sequence) {
	switch q.inter {
	case 0:
	case '(', ')', '*', '+':
		s.cursor.sets[q.inter-'('] = charset(q.final)
		return
	case '#':
		if q.final == '8' {
			s.align()
		}
		return
	default:
		return
	}
	switch q.final {
	case '7':
		s.keepCursor(true)
	case '8':
		s.keepCursor(false)
	case 'D':
		s.index()
	case 'E':
		s.cursor.x = 0
		s.index()
	case 'H':
		s.tabs[s.cursor.x] = true
	case 'M':
		s.reverseIndex()
	case 'c':
		s.reset()
	case '=', '>':
		s.set(appKeypad, q.final == '=')
	case 'n', 'o':
		s.cursor.shift = int(q.final-'n') + 2
	}
}

// charset is one that is known: others show ASCII.
func charset(final byte) byte {
	if final == '0' || final == 'A' {
		return final
	}
	return 'B'
}

// align fills the screen, as tests of terminals do.
func (s *Screen) align() {
	s.top, s.bottom = 0, s.rows-1
	s.cursor.origin = false
	for i := range s.shown().lines {
		l := s.shown().lines[i]
		l.clear(0, s.cols, 0)
		l.used = s.cols
		for x := range l.cells {
			l.cells[x].char = 'E'
		}
	}
	s.move(0, 0)
}

// csi carries out a control sequence.
func (s *Screen) csi(q *sequence) {
	switch {
	case q.inter == 0 && q.private == 0:
		if !s.moves(q) && !s.edits(q) {
			s.sets(q)
		}
	case q.final == 'h', q.final == 'l':
		s.switchModes(q, q.final == 'h')
	case q.inter == '!' && q.final == 'p':
		s.soft()
	case q.inter == ' ' && q.final == 'q':
		s.style = min(q.at(0, 0), 6)
	case q.private == '?' && q.final == 'J':
		s.eraseDisplay(q.at(0, 0))
	case q.private == '?' && q.final == 'K':
		s.eraseLine(q.at(0, 0))
	case q.private == '>' && q.final == 'm' && q.at(0, 0) == 4:
		s.other = min(q.at(1, 0), 9)
	case q.private == '>' && q.final == 'n' && q.at(0, 0) == 4:
		s.other = 0
	}
}

// moves carries out a sequence that moves the cursor.
func (s *Screen) moves(q *sequence) bool {
	n, c := q.count(0), &s.cursor
	switch q.final {
	case 'A':
		s.up(n)
	case 'B', 'e':
		s.down(n)
	case 'C', 'a':
		s.column(c.x + n)
	case 'D':
		s.left(n)
	case 'E':
		s.down(n)
		s.column(0)
	case 'F':
		s.up(n)
		s.column(0)
	case 'G', '`':
		s.column(n - 1)
	case 'H', 'f':
		s.move(n-1, q.count(1)-1)
	case 'd':
		s.move(n-1, c.x)
	case 'I':
		s.tab(min(n, s.cols))
	case 'Z':
		s.tab(-min(n, s.cols))
	case 's':
		s.keepCursor(true)
	case 'u':
		s.keepCursor(false)
	default:
		return false
	}
	return true
}

// move moves the cursor to a row, of the region where positions count in it, and a column.
func (s *Screen) move(y, x int) {
	last := s.rows - 1
	if s.cursor.origin {
		y, last = y+s.top, s.bottom
	}
	s.cursor.y = min(max(y, 0), last)
	s.column(x)
}

func (s *Screen) column(x int) {
	s.cursor.x, s.cursor.wrap = min(max(x, 0), s.cols-1), false
}

func (s *Screen) up(n int) {
	top := 0
	if s.cursor.y >= s.top {
		top = s.top
	}
	s.cursor.y, s.cursor.wrap = max(s.cursor.y-n, top), false
}

func (s *Screen) down(n int) {
	bottom := s.rows - 1
	if s.cursor.y <= s.bottom {
		bottom = s.bottom
	}
	s.cursor.y, s.cursor.wrap = min(s.cursor.y+n, bottom), false
}

func (s *Screen) left(n int) { s.column(s.cursor.x - n) }

// edits carries out a sequence that changes what is shown.
func (s *Screen) edits(q *sequence) bool {
	n, x := q.count(0), s.cursor.x
	switch q.final {
	case 'J':
		s.eraseDisplay(q.at(0, 0))
	case 'K':
		s.eraseLine(q.at(0, 0))
	case 'X':
		s.line().clear(x, min(x+n, s.cols), s.back)
		s.cursor.wrap = false
	case '@':
		s.line().insert(x, n, s.back)
		s.cursor.wrap = false
	case 'P':
		s.line().remove(x, n, s.back)
		s.cursor.wrap = false
	case 'L', 'M':
		if s.cursor.y >= s.top && s.cursor.y <= s.bottom {
			if q.final == 'L' {
				n = -n
			}
			s.shown().scroll(s.cursor.y, s.bottom, n, s.back)
			s.column(0)
		}
	case 'S':
		s.shown().scroll(s.top, s.bottom, n, s.back)
	case 'T':
		if len(q.params) <= 1 { // with more it is about the mouse
			s.shown().scroll(s.top, s.bottom, -n, s.back)
		}
	case 'b':
		for n = min(n, s.rows*s.cols); n > 0 && s.last != 0; n-- {
			s.print(s.last, s.lastWidth)
		}
	default:
		return false
	}
	return true
}

func (s *Screen) eraseDisplay(how int) {
	from, to := 0, s.rows
	switch how {
	case 0:
		s.eraseLine(0)
		from = s.cursor.y + 1
	case 1:
		s.eraseLine(1)
		to = s.cursor.y
	case 2:
	default:
		return // 3 is what has scrolled out
	}
	for y := from; y < to; y++ {
		s.shown().lines[y].clear(0, s.cols, s.back)
	}
	s.cursor.wrap = false
}

func (s *Screen) eraseLine(how int) {
	from, to := 0, s.cols
	switch how {
	case 0:
		from = s.cursor.x
	case 1:
		to = s.cursor.x + 1
	case 2:
	default:
		return
	}
	s.line().clear(from, to, s.back)
	s.cursor.wrap = false
}

// sets carries out a sequence that sets something.
func (s *Screen) sets(q *sequence) {
	switch q.final {
	case 'm':
		s.paintWith(q.params)
	case 'r':
		top, bottom := q.count(0)-1, min(q.at(1, s.rows), s.rows)-1
		if bottom < 0 {
			bottom = s.rows - 1
		}
		if top < bottom {
			s.top, s.bottom = top, bottom
			s.move(0, 0)
		}
	case 'h', 'l':
		s.switchModes(q, q.final == 'h')
	case 'g':
		switch q.at(0, 0) {
		case 0:
			s.tabs[s.cursor.x] = false
		case 3:
			clear(s.tabs)
		}
	case 't':
		s.window(q)
	}
}

// maxTitles is how many titles may be put aside.
const maxTitles = 10

// window puts titles aside, and brings them back.
func (s *Screen) window(q *sequence) {
	switch q.at(0, 0) {
	case 22:
		if len(s.titles) < maxTitles {
			s.titles = append(s.titles, s.title)
		}
	case 23:
		if n := len(s.titles); n > 0 {
			s.title, s.titles = s.titles[n-1], s.titles[:n-1]
		}
	}
}
