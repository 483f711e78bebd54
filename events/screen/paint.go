package screen

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// clean has a terminal stop what it is in, and be as after its start, but for what it shows and what has scrolled
// out. DECSTR, which is in it, does some of that only in some terminals.
var clean = strings.Repeat("\x1b[23;2t", maxTitles) + "\x18\x1b[!p\x1b[?1049l\x1b[r\x1b[?6l\x1b[?7h\x1b[4l\x1b[20l\x1b(B\x1b)B\x1b*B\x1b+B\x0f\x1b[m\x1b]8;;\x1b\\" +
	"\x1b]104\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]112\x1b\\\x1b[?2026l\x1b[?45l\x1b>"

// Paint gives what makes a terminal of the same size show the same, and go on as this one would with what comes
// from Offset on. What scrolled out of the terminal's own screen before stays. It has nothing that is answered.
func (s *Screen) Paint() []byte {
	b := paint(s, maxPaint, false)
	if len(b) > maxPaint {
		b = paint(s, math.MaxInt, true)
	}
	return b
}

// maxPaint bounds what Paint gives, in bytes, beyond what it takes without links: a program can have each cell be one of its own.
const maxPaint = 4 << 20

// Frame is a screen's Paint for a terminal to which all comes that this one has yet to get: it has the beginning of what isn't complete, too. If
// it would be more than so many bytes it is without links, and nil if that is more, too.
func Frame(s *Screen, most int) []byte {
	for _, plain := range []bool{false, true} {
		if b := append(paint(s, most, plain), s.parser.pending()...); len(b) <= most {
			return b
		}
	}
	return nil
}

// paint is Paint of a screen, but stops when it has more than so many bytes.
func paint(s *Screen, most int, plain bool) []byte {
	b := append([]byte(nil), clean...)
	p := painter{glyphs: s.glyphs, cols: s.area.cols, most: most, b: b, plain: plain}
	p.grid(s.main)
	p.save(s.main.saved)
	if s.alt != nil {
		p.textf("\x1b[%dH\x1b[?1047h\x1b[m", s.main.left+1)
		p.grid(s.alt)
		p.save(s.alt.saved)
	}
	p.settings(s)
	p.place(s)
	return p.b
}

// painter writes what makes a terminal show something.
type painter struct {
	*glyphs
	cols  int
	most  int // it needs no more bytes
	b     []byte
	plain bool // without links
}

func (p *painter) text(text string) { p.b = append(p.b, text...) }

func (p *painter) textf(format string, args ...any) { p.b = fmt.Appendf(p.b, format, args...) }

// grid paints all cells, with the default pen before and after it.
func (p *painter) grid(g *grid) {
	p.text("\x1b[H\x1b[2J")
	now := uint16(0)
	goesOn := false // from the line above
	for y := range g.lines {
		l := g.lines[y]
		end := l.used
		wraps := l.wraps && y+1 < len(g.lines)
		for end > 0 && !wraps && l.cells[end-1] == (cell{' ', 0, single}) {
			end--
		}
		switch {
		case wraps:
			end = p.cols
		case goesOn:
			end = max(end, 1)
		}
		if end > 0 && !goesOn {
			p.textf("\x1b[%dH", y+1)
		}
		now = p.row(l.cells[:end], now)
		goesOn = wraps
	}
	p.use(now, 0)
}

// row paints cells from the first column on, and gives the last pen.
func (p *painter) row(cells []cell, now uint16) uint16 {
	sure := true // where the terminal's cursor is: others have other widths
	for x := 0; x < len(cells) && len(p.b) <= p.most; x++ {
		c := cells[x]
		if c.half == right {
			continue
		}
		ascii := c.char < 0x7f
		if ascii && !sure {
			p.textf("\x1b[%dG", x+1)
		}
		sure = ascii
		p.use(now, c.pen)
		now = c.pen
		p.text(p.glyphs.text(c.char))
	}
	return now
}

// use changes from one pen to another.
func (p *painter) use(from, to uint16) {
	if from != to {
		p.pen(p.pens[from].link, p.pens[to])
	}
}

// pen sets a pen; link is what is set.
func (p *painter) pen(link uint16, to pen) {
	p.b = append(p.sgr(append(p.b, "\x1b[0"...), to), 'm')
	if to.link != link && !p.plain {
		text := p.links[to.link]
		if text == "" {
			text = ";"
		}
		p.textf("\x1b]8;%s\x1b\\", text)
	}
}

// sgr adds the parameters of CSI m that make the default pen another, each after a semicolon.
func (g *glyphs) sgr(b []byte, p pen) []byte {
	for n, flag := range []flags{1: bold, 2: faint, 3: italic, 5: blink, 7: inverse, 8: hidden, 9: struck} {
		if p.flags&flag != 0 {
			b = strconv.AppendInt(append(b, ';'), int64(n), 10)
		}
	}
	if p.flags&overlined != 0 {
		b = append(b, ";53"...)
	}
	switch kind := p.flags & underlineMask >> underlineShift; kind {
	case 0:
	case 1:
		b = append(b, ";4"...)
	default:
		b = fmt.Appendf(b, ";4:%d", kind)
	}
	b = p.fore.sgr(b, 30)
	b = p.back.sgr(b, 40)
	return p.line.sgr(b, 50)
}

// sgr adds a colour; base is 30, 40 or 50.
func (c color) sgr(b []byte, base int) []byte {
	v := int(c & 0xffffff)
	switch {
	case c&direct != 0:
		return fmt.Appendf(b, ";%d;2;%d;%d;%d", base+8, v>>16, v>>8&0xff, v&0xff)
	case c&indexed == 0:
		return b
	case base < 50 && v < 8:
		return fmt.Appendf(b, ";%d", base+v)
	case base < 50 && v < 16:
		return fmt.Appendf(b, ";%d", base+60+v-8)
	}
	return fmt.Appendf(b, ";%d;5;%d", base+8, v)
}

// save makes a cursor the one that the terminal keeps, and leaves the default pen. The region is the whole screen.
func (p *painter) save(c cursor) {
	p.textf("\x1b[?6%c\x1b[%d;%dH", switching(c.origin), c.y+1, c.x+1)
	p.pen(0, c.pen)
	p.charsets(c)
	p.text("\x1b7\x1b[?6l")
	p.charsets(cursor{sets: plainSets})
	p.pen(c.pen.link, pen{})
}

func (p *painter) charsets(c cursor) {
	for i, set := range c.sets {
		p.textf("\x1b%c%c", '('+i, set)
	}
	switch c.shift {
	case 0:
		p.text("\x0f")
	case 1:
		p.text("\x0e")
	default:
		p.textf("\x1b%c", 'n'+c.shift-2)
	}
}

// listed are the modes that are said, on or off, in this order.
var listed = []struct {
	mode modes
	name string
}{
	{reversed, "?5"}, {blinking, "?12"}, {appCursor, "?1"}, {bracketed, "?2004"}, {wheelKeys, "?1007"}, {newline, "20"},
	{mousePress, "?9"}, {mouseClicks, "?1000"}, {mouseDrags, "?1002"}, {mouseMoves, "?1003"},
	{mouseUTF8, "?1005"}, {mouseSGR, "?1006"}, {mouseURXVT, "?1015"}, {mousePixels, "?1016"},
}

// switching is the final byte that switches a mode on or off.
func switching(on bool) byte {
	if on {
		return 'h'
	}
	return 'l'
}

// settings paints what isn't seen, and doesn't change how the rest is painted.
func (p *painter) settings(s *Screen) {
	for _, on := range []bool{false, true} { // some exclude others
		for _, l := range listed {
			if s.modes.has(l.mode) == on {
				p.textf("\x1b[%s%c", l.name, switching(on))
			}
		}
	}
	if s.modes.has(appKeypad) {
		p.text("\x1b=")
	}
	p.textf("\x1b[>4;%dm\x1b[%d q", s.other, s.style)
	p.text("\x1b[3g")
	for x, stop := range s.area.tabs {
		if stop {
			p.textf("\x1b[1;%dH\x1bH", x+1)
		}
	}
	for _, title := range s.names.titles { // those put aside
		p.textf("\x1b]2;%s\x1b\\\x1b[22;2t", title)
	}
	p.textf("\x1b]1;%s\x1b\\\x1b]2;%s\x1b\\", s.names.icon, s.names.title)
	for _, n := range slices.Sorted(maps.Keys(s.names.colors)) {
		if n < colorBase {
			p.textf("\x1b]4;%d;%s\x1b\\", n, s.names.colors[n])
		} else {
			p.textf("\x1b]%d;%s\x1b\\", n-colorBase, s.names.colors[n])
		}
	}
}

// place paints the cursor, and what would have been in the way before. The last character is printed once more
// where it fills the last column, so that the next one begins a line, or where it may be repeated (CSI b).
func (p *painter) place(s *Screen) {
	c := s.area.cursor
	p.textf("\x1b[%d;%dr\x1b[?25%c", s.area.top+1, s.area.bottom+1, switching(s.modes.has(visible)))
	if s.modes.has(backwrap) {
		p.text("\x1b[?45h")
	}
	if !s.modes.has(autowrap) {
		p.text("\x1b[?7l")
	}
	y := c.y
	if c.origin {
		y -= s.area.top
		p.text("\x1b[?6h")
	}
	ascii := c.sets[c.shift] == 'B'
	if ascii {
		p.charsets(c)
	}
	x, again := printedLast(s, ascii)
	p.textf("\x1b[%d;%dH", y+1, x+1)
	now := uint16(0)
	if again {
		printed := s.line().cells[x]
		p.use(now, printed.pen)
		p.text(p.glyphs.text(printed.char))
		now = printed.pen
	}
	p.pen(p.pens[now].link, c.pen)
	if !ascii {
		p.charsets(c)
	}
	if s.modes.has(insert) {
		p.text("\x1b[4h")
	}
}

// printedLast gives the column of the last character if it is to be printed again, else that of the cursor.
func printedLast(s *Screen, ascii bool) (x int, again bool) {
	cells := s.line().cells
	if s.area.cursor.wrap {
		if x = s.area.cursor.x; x > 0 && cells[x].half == right {
			x--
		}
		return x, true
	}
	x = s.lastX
	if !ascii || s.last == 0 || cells[x].char != s.last || cells[x].pen != s.ink || s.modes.has(insert) {
		return s.area.cursor.x, false
	}
	return x, true
}
