package screen

// modes are those that are switched on.
type modes uint32

const (
	autowrap modes = 1 << iota
	visible        // the cursor
	insert
	newline // a line feed returns, too
	appCursor
	appKeypad
	bracketed // what is pasted is marked
	reversed  // the whole screen
	backwrap
	blinking
	mousePress
	mouseClicks
	mouseDrags
	mouseMoves
	mouseUTF8
	mouseSGR
	mouseURXVT
	mousePixels
	wheelKeys // the wheel is cursor keys in the alternate screen
	synced    // the program is in the midst of a picture
)

const (
	firstModes = autowrap | visible
	// softModes are those that a soft reset switches.
	softModes    = autowrap | visible | insert | appCursor | appKeypad | bracketed | backwrap
	mouseEvents  = mousePress | mouseClicks | mouseDrags | mouseMoves
	mouseFormats = mouseUTF8 | mouseSGR | mouseURXVT | mousePixels
)

func (m modes) has(one modes) bool { return m&one != 0 }

// private are the modes of CSI ? n h that are one bit each.
var private = map[int]modes{
	1: appCursor, 5: reversed, 7: autowrap, 12: blinking, 25: visible, 45: backwrap, 66: appKeypad, 1007: wheelKeys, 2004: bracketed, 2026: synced,
	9: mousePress, 1000: mouseClicks, 1002: mouseDrags, 1003: mouseMoves, 1005: mouseUTF8, 1006: mouseSGR, 1015: mouseURXVT, 1016: mousePixels,
}

// exclusive are modes of which one at most is on.
var exclusive = []modes{mouseEvents, mouseFormats}

// switchModes carries out CSI h and l.
func (s *Screen) switchModes(q *sequence, on bool) {
	for i := range q.params {
		n := q.at(i, 0)
		switch q.private {
		case '?':
			s.switchPrivate(n, on)
		case 0:
			switch n {
			case 4:
				s.set(insert, on)
			case 20:
				s.set(newline, on)
			}
		}
	}
}

func (s *Screen) set(m modes, on bool) {
	for _, group := range exclusive {
		if m&group != 0 {
			s.modes &^= group
		}
	}
	if s.modes &^= m; on {
		s.modes |= m
	}
}

func (s *Screen) switchPrivate(n int, on bool) {
	switch n {
	case 6:
		s.area.cursor.origin = on
		s.area.move(0, 0)
	case 47, 1047:
		s.alternate(on)
	case 1048:
		s.keepCursor(on)
	case 1049:
		if on {
			s.keepCursor(true)
			s.alternate(true)
			return
		}
		s.alternate(false)
		s.keepCursor(false)
	default:
		s.set(private[n], on)
		if n == 7 {
			s.area.cursor.wrap = false
		}
	}
}

// alternate shows the second screen, blank at first, or the main one.
func (s *Screen) alternate(on bool) {
	switch {
	case on && s.alt == nil:
		s.main.left = s.area.cursor.y
		s.alt = newGrid(s.area.rows, s.area.cols)
		for i := range s.alt.lines {
			s.alt.lines[i].clear(0, s.area.cols, s.back)
		}
	case !on && s.alt != nil:
		s.alt = nil
	default:
		return
	}
	s.area.cursor.wrap = false
}

// keepCursor saves the cursor, or brings it back.
func (s *Screen) keepCursor(save bool) {
	g := s.shown()
	if save {
		g.saved = s.area.cursor
		g.saved.wrap = false
		return
	}
	s.area.cursor = g.saved
	s.area.cursor.x, s.area.cursor.y = min(s.area.cursor.x, s.area.cols-1), min(s.area.cursor.y, s.area.rows-1)
	s.useInk()
}
