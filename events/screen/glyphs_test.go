package screen

import (
	"fmt"
	"strings"
	"testing"
)

// A program that fills the screen with links, marks or pens can't have all cells looked through for each sequence that follows.
func TestFewSweeps(t *testing.T) {
	const rows, cols = 150, 150
	for name, c := range map[string]struct {
		most int
		text func(n int) string
	}{
		"links": {maxLinks, func(n int) string { return fmt.Sprintf("\x1b]8;;%d\x1b\\x", n) }},
		"marks": {maxClusters, func(n int) string { return "a" + string(rune(0x300+n%0x70)) + string(rune(0x300+n/0x70)) }},
		"pens":  {maxPens, func(n int) string { return fmt.Sprintf("\x1b[38;2;%d;%d;1mx", n/256, n%256) }},
	} {
		s := New(rows, cols)
		sweeps := func(texts ...string) (n int) {
			for _, text := range texts {
				was := s.glyphs
				if s.Write([]byte(text)); s.glyphs != was {
					n++
				}
			}
			return n
		}
		var fill, more []string
		for n := range c.most {
			fill = append(fill, c.text(n))
		}
		for n := range 500 {
			more = append(more, c.text(c.most+n))
		}
		if sweeps(fill...); len(s.glyphs.links) < c.most && len(s.glyphs.clusters) < c.most-c.most/8 && len(s.glyphs.pens) < c.most {
			t.Errorf("%s: the table isn't full", name)
		}
		if n := sweeps(more...); n > 1 {
			t.Errorf("%s: there are %d sweeps", name, n)
		}
		s.Write([]byte("\x1b[m\x1b]8;;\x1b\\" + strings.Repeat("y", rows*cols)))
		if n := sweeps(more...); n > 1 || s.glyphs.hold > 0 {
			t.Errorf("%s: after that there are %d sweeps, and %d cells to write", name, n, s.glyphs.hold)
		}
		x := s.lastX
		if last := s.line().cells[x]; last.pen == 0 && last.char < firstCluster {
			t.Errorf("%s: after that there are none", name)
		}
	}
}
