package screen

import "strings"

// The bounds of a screen. One that is set larger shows a part.
const (
	maxRows = 500
	maxCols = 1000
)

// cursor is where the next character comes, and how it looks.
type cursor struct {
	x, y   int
	wrap   bool // the last column is written, and the next character begins a line
	pen    pen
	origin bool    // positions count within the scroll region
	sets   [4]byte // character sets: final bytes of their designations
	shift  int     // which of them is in use
}

var plainSets = [4]byte{'B', 'B', 'B', 'B'}

// Screen is what a terminal shows. It may be used from one goroutine at a time.
type Screen struct {
	parser parser
	glyphs *glyphs
	area   area

	main, alt *grid  // alt is nil while the main one is shown
	ink       uint16 // index of the cursor's pen
	back      uint16 // index of a pen with its background alone
	modes     modes
	style     int   // of the cursor
	last      int32 // the character that was printed last; 0 after anything else
	lastWidth int
	lastX     int // its column
	other     int // what modifyOtherKeys is set to
	names     names

	answers []byte
	gone    outlet
}

// New makes a blank screen.
func New(rows, cols int) *Screen {
	s := &Screen{}
	s.area.rows, s.area.cols = bounded(rows, cols)
	s.reset()
	return s
}

func bounded(rows, cols int) (int, int) {
	return min(max(rows, 1), maxRows), min(max(cols, 1), maxCols)
}

// reset makes everything as it is at first.
func (s *Screen) reset() {
	if s.main != nil {
		s.gone.flush(s.main)
	}
	s.glyphs = newGlyphs()
	s.main, s.alt = newGrid(s.area.rows, s.area.cols), nil
	s.modes, s.style, s.other = firstModes, 0, 0
	s.area.tabs = firstTabs(s.area.cols)
	s.names.colors = nil
	s.soft()
	s.area.cursor.x, s.area.cursor.y = 0, 0
}

// soft resets what a program may have left switched on, but shows the same.
func (s *Screen) soft() {
	s.area.top, s.area.bottom = 0, s.area.rows-1
	at := s.area.cursor
	s.area.cursor = cursor{x: at.x, y: at.y, sets: plainSets}
	s.shown().saved = cursor{sets: plainSets}
	s.modes = s.modes&^softModes | firstModes&softModes
	s.useInk()
}

// Write takes what a program prints. The answers are for the program's input; they are none if it asked for none.
func (s *Screen) Write(p []byte) (answers []byte) {
	s.parser.feed(p, s)
	answers, s.answers = s.answers, nil
	return answers
}

// Offset is the position, in bytes since New, of what follows the screen: of what isn't complete the first byte.
func (s *Screen) Offset() int64 { return s.parser.offset() }

// Dropped says that at Offset a control string goes on that is too long to be kept: the byte after its ESC.
// It is 0 else.
func (s *Screen) Dropped() byte { return s.parser.dropped() }

// Resume has what is written next be what followed a screen, of which Offset and Dropped were said.
func (s *Screen) Resume(at int64, dropped byte) { s.parser.resume(at, dropped) }

// Size gives the rows and columns.
func (s *Screen) Size() (rows, cols int) { return s.area.rows, s.area.cols }

// Title is the window's, as the program set it.
func (s *Screen) Title() string { return s.names.title }

// Alternate reports whether the program uses the second screen, as those do that fill it.
func (s *Screen) Alternate() bool { return s.alt != nil }

// Text is what a row shows, without blanks at its end.
func (s *Screen) Text(row int) string {
	if row < 0 || row >= s.area.rows {
		return ""
	}
	return strings.TrimRight(cellsText(s.glyphs, s.shown().lines[row].cells), " ")
}

// cellsText is what cells have in them.
func cellsText(g *glyphs, cells []cell) string {
	var b []byte
	for _, c := range cells {
		if c.half != right {
			b = append(b, g.text(c.char)...)
		}
	}
	return string(b)
}

// Resize gives the screen another size.
func (s *Screen) Resize(rows, cols int) {
	rows, cols = bounded(rows, cols)
	if rows == s.area.rows && cols == s.area.cols {
		return
	}
	s.last = 0
	if s.alt == nil {
		s.gone.leave(s, 0, s.area.cursor.y-rows+1)
		s.area.cursor.y -= s.main.resize(rows, cols, s.area.cursor.y)
	} else {
		s.gone.first(s.main, s.main.left-rows+1)
		s.main.resize(rows, cols, s.main.left)
		s.area.cursor.y -= s.alt.resize(rows, cols, s.area.cursor.y)
	}
	if s.area.cursor.wrap && cols > s.area.cols {
		s.area.cursor.x++
	}
	if cols != s.area.cols {
		s.area.cursor.wrap = false
	}
	for len(s.area.tabs) < cols {
		s.area.tabs = append(s.area.tabs, len(s.area.tabs)%8 == 0 && len(s.area.tabs) > 0)
	}
	s.area.tabs = s.area.tabs[:cols]
	s.area.rows, s.area.cols = rows, cols
	s.area.top, s.area.bottom = 0, rows-1
	s.area.cursor.x = min(s.area.cursor.x, cols-1)
}

func firstTabs(cols int) []bool {
	tabs := make([]bool, cols)
	for i := 8; i < cols; i += 8 {
		tabs[i] = true
	}
	return tabs
}

// shown is the grid that is shown.
func (s *Screen) shown() *grid {
	if s.alt != nil {
		return s.alt
	}
	return s.main
}

// useInk finds the indices of the cursor's pen.
func (s *Screen) useInk() {
	for range 2 {
		ink, ok := s.glyphs.pen(s.area.cursor.pen)
		back, fits := s.glyphs.pen(pen{back: s.area.cursor.pen.back})
		if s.ink, s.back = ink, back; ok && fits {
			return
		}
		s.sweep()
	}
}
