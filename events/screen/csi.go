package screen

// sequence implements parts.
func (s *Screen) sequence(q *sequence) {
	if !q.keepsLast() {
		s.last = 0
	}
	answerer{s}.answer(q)
	switch q.opened {
	case 0:
		s.escape(q)
	case '[':
		s.csi(q)
	case ']':
		if n, rest := q.number(); n == 8 {
			s.linkTo(rest)
		} else {
			s.names.command(n, rest)
		}
	}
}

// keepsLast reports whether the character before may be repeated after the sequence.
func (q *sequence) keepsLast() bool {
	return q.opened == '[' && q.private == 0 && (q.final == 'b' || q.final == 'm') || q.asks()
}

// escape carries out an escape sequence.
func (s *Screen) escape(q *sequence) {
	switch q.inter {
	case 0:
	case '(', ')', '*', '+':
		s.area.cursor.sets[q.inter-'('] = charset(q.final)
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
		s.area.cursor.x = 0
		s.index()
	case 'H':
		s.area.tabs[s.area.cursor.x] = true
	case 'M':
		s.reverseIndex()
	case 'c':
		s.reset()
	case '=', '>':
		s.set(appKeypad, q.final == '=')
	case 'n', 'o':
		s.area.cursor.shift = int(q.final-'n') + 2
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
	s.area.top, s.area.bottom = 0, s.area.rows-1
	s.area.cursor.origin = false
	for i := range s.shown().lines {
		l := s.shown().lines[i]
		l.clear(0, s.area.cols, 0)
		l.used = s.area.cols
		for x := range l.cells {
			l.cells[x].char = 'E'
		}
	}
	s.area.move(0, 0)
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
	n, c := q.count(0), &s.area.cursor
	switch q.final {
	case 'A':
		s.area.up(n)
	case 'B', 'e':
		s.area.down(n)
	case 'C', 'a':
		s.area.column(c.x + n)
	case 'D':
		s.area.left(n)
	case 'E':
		s.area.down(n)
		s.area.column(0)
	case 'F':
		s.area.up(n)
		s.area.column(0)
	case 'G', '`':
		s.area.column(n - 1)
	case 'H', 'f':
		s.area.move(n-1, q.count(1)-1)
	case 'd':
		s.area.move(n-1, c.x)
	case 'I':
		s.area.tab(min(n, s.area.cols))
	case 'Z':
		s.area.tab(-min(n, s.area.cols))
	case 's':
		s.keepCursor(true)
	case 'u':
		s.keepCursor(false)
	default:
		return false
	}
	return true
}

// edits carries out a sequence that changes what is shown.
func (s *Screen) edits(q *sequence) bool {
	n, x := q.count(0), s.area.cursor.x
	switch q.final {
	case 'J':
		s.eraseDisplay(q.at(0, 0))
	case 'K':
		s.eraseLine(q.at(0, 0))
	case 'X':
		s.line().clear(x, min(x+n, s.area.cols), s.back)
		s.area.cursor.wrap = false
	case '@':
		s.line().insert(x, n, s.back)
		s.area.cursor.wrap = false
	case 'P':
		s.line().remove(x, n, s.back)
		s.area.cursor.wrap = false
	case 'L', 'M':
		if s.area.cursor.y >= s.area.top && s.area.cursor.y <= s.area.bottom {
			if q.final == 'L' {
				n = -n
			}
			s.shown().scroll(s.area.cursor.y, s.area.bottom, n, s.back)
			s.area.column(0)
		}
	case 'S':
		s.gone.leave(s, s.area.top, min(n, s.area.bottom+1))
		s.shown().scroll(s.area.top, s.area.bottom, n, s.back)
	case 'T':
		if len(q.params) <= 1 { // with more it is about the mouse
			s.shown().scroll(s.area.top, s.area.bottom, -n, s.back)
		}
	case 'b':
		if s.last == 0 {
			return true
		}
		for n = repeats(n, s.area.rows, max(1, s.area.cols/s.lastWidth)); n > 0; n-- {
			s.print(s.last, s.lastWidth)
		}
	default:
		return false
	}
	return true
}

// repeats is how often a character is printed for n times, of which perLine fill a line: once a screen is full of it,
// each line more shows the same.
func repeats(n, rows, perLine int) int {
	if most := 2 * (rows + 1) * perLine; n > most {
		return most + (n-most)%perLine
	}
	return n
}

func (s *Screen) eraseDisplay(how int) {
	from, to := 0, s.area.rows
	if s.alt == nil && (how == 2 || how == 0 && s.area.cursor.x == 0 && s.area.cursor.y == 0) {
		s.gone.flush(s.main)
	}
	switch how {
	case 0:
		s.eraseLine(0)
		from = s.area.cursor.y + 1
	case 1:
		s.eraseLine(1)
		to = s.area.cursor.y
	case 2:
	default:
		return // 3 is what has scrolled out
	}
	for y := from; y < to; y++ {
		s.shown().lines[y].clear(0, s.area.cols, s.back)
		s.shown().begins(y)
	}
}

func (s *Screen) eraseLine(how int) {
	from, to := 0, s.area.cols
	switch how {
	case 0:
		if s.area.cursor.wrap { // the cursor is past the last column
			return
		}
		from = s.area.cursor.x
	case 1:
		to = s.area.cursor.x + 1
	case 2:
	default:
		return
	}
	s.line().clear(from, to, s.back)
	if from == 0 && to == s.area.cols {
		s.shown().begins(s.area.cursor.y)
	}
}

// sets carries out a sequence that sets something.
func (s *Screen) sets(q *sequence) {
	switch q.final {
	case 'm':
		s.area.cursor.pen.change(q.params)
		s.useInk()
	case 'r':
		top, bottom := q.count(0)-1, min(q.at(1, s.area.rows), s.area.rows)-1
		if bottom < 0 {
			bottom = s.area.rows - 1
		}
		if top < bottom {
			s.area.top, s.area.bottom = top, bottom
			s.area.move(0, 0)
		}
	case 'h', 'l':
		s.switchModes(q, q.final == 'h')
	case 'g':
		switch q.at(0, 0) {
		case 0:
			s.area.tabs[s.area.cursor.x] = false
		case 3:
			clear(s.area.tabs)
		}
	case 't':
		s.names.window(q)
	}
}
