package screen

import "unicode/utf8"

// pen is how a character looks.
type pen struct {
	fore, back, line color // line is of the underline
	flags            flags
	link             uint16 // index into glyphs.links, 0 for none
}

// color is 0 for the default, else a kind and a value.
type color uint32

const (
	indexed color = 1 << 24 // one of 256
	direct  color = 2 << 24 // red, green, blue
)

type flags uint16

const (
	bold flags = 1 << iota
	faint
	italic
	blink
	inverse
	hidden
	struck
	overlined
	underline1 // the bits from here on are the kind of underline, 0 to 5
	underline2
	underline4
)

const (
	underlineShift = 8
	underlineMask  = underline1 | underline2 | underline4
)

// The bounds of what is kept once for all cells.
const (
	maxPens     = 1 << 14
	maxClusters = 1 << 12
	maxCluster  = 32 // bytes
	maxLinks    = 1 << 10
	maxLink     = 2 << 10 // bytes
)

// firstCluster is the char of the first character that is more than one code point.
const firstCluster = utf8.MaxRune + 1

// glyphs are what cells refer to. Index 0 is the default pen, and no link.
type glyphs struct {
	pens     []pen
	ofPen    map[pen]uint16
	clusters []string
	of       map[string]int32
	links    []string // "params;uri"
	ofLink   map[string]uint16
	hold     int // so many cells are written before the next sweep
}

func newGlyphs() *glyphs {
	return &glyphs{
		pens: []pen{{}}, ofPen: map[pen]uint16{{}: 0}, of: map[string]int32{}, links: []string{""}, ofLink: map[string]uint16{"": 0},
	}
}

// pen gives the index of a pen; ok is false if there is no room.
func (g *glyphs) pen(p pen) (i uint16, ok bool) {
	if i, ok := g.ofPen[p]; ok {
		return i, true
	}
	if len(g.pens) >= maxPens {
		return 0, false
	}
	g.pens = append(g.pens, p)
	g.ofPen[p] = uint16(len(g.pens) - 1)
	return uint16(len(g.pens) - 1), true
}

// cluster gives the char of a text; ok is false if there is no room.
func (g *glyphs) cluster(text string) (char int32, ok bool) {
	if char, ok := g.of[text]; ok {
		return char, true
	}
	if len(g.clusters) >= maxClusters {
		return 0, false
	}
	g.clusters = append(g.clusters, text)
	g.of[text] = firstCluster + int32(len(g.clusters)-1)
	return g.of[text], true
}

// text is what a char is.
func (g *glyphs) text(char int32) string {
	if char >= firstCluster {
		return g.clusters[char-firstCluster]
	}
	return string(rune(char))
}

func (g *glyphs) link(text string) (i uint16, ok bool) {
	if i, ok := g.ofLink[text]; ok {
		return i, true
	}
	if len(g.links) >= maxLinks {
		return 0, false
	}
	g.links = append(g.links, text)
	g.ofLink[text] = uint16(len(g.links) - 1)
	return uint16(len(g.links) - 1), true
}

// sweep keeps what the cells and pens of a screen still refer to. What they refer to afterwards is the same. If that
// made little room there is no other sweep until as many cells were written as the screen has: else a program could have
// one for each of its sequences.
func (s *Screen) sweep() {
	if s.glyphs.hold > 0 {
		return
	}
	was, now := s.glyphs, newGlyphs()
	move := func(i uint16) uint16 {
		p := was.pens[i]
		p.link, _ = now.link(was.links[p.link])
		to, _ := now.pen(p)
		return to
	}
	for _, g := range []*grid{s.main, s.alt} {
		if g == nil {
			continue
		}
		for _, l := range g.lines {
			for i := range l.cells {
				c := &l.cells[i]
				c.pen = move(c.pen)
				if c.char >= firstCluster {
					c.char, _ = now.cluster(was.text(c.char))
				}
			}
		}
		g.saved.pen.link, _ = now.link(was.links[g.saved.pen.link])
	}
	s.area.cursor.pen.link, _ = now.link(was.links[s.area.cursor.pen.link])
	if tight(len(was.pens), len(now.pens), maxPens) || tight(len(was.clusters), len(now.clusters), maxClusters) ||
		tight(len(was.links), len(now.links), maxLinks) {
		now.hold = s.area.rows * s.area.cols
	}
	s.glyphs = now
	if s.last >= firstCluster {
		s.last = ' '
	}
}

// tight reports whether a table was full, and less than an eighth of it is free now.
func tight(was, now, most int) bool { return was >= most && most-now < most/8 }
