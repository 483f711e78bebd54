package screen

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// show gives a screen's rows, without those blank at its end.
func show(s *Screen) string {
	var rows []string
	for y := range s.area.rows {
		rows = append(rows, s.Text(y))
	}
	return strings.TrimRight(strings.Join(rows, "\n"), "\n")
}

// everything is what a screen has, in words.
func everything(s *Screen) string {
	var b strings.Builder
	for i, g := range []*grid{s.main, s.alt} {
		if g == nil {
			continue
		}
		name := []string{"main", "alt"}[i]
		for y, l := range g.lines {
			fmt.Fprintf(&b, "%s %d:", name, y)
			for _, c := range l.cells {
				p := s.glyphs.pens[c.pen]
				link := s.glyphs.links[p.link]
				p.link = 0
				fmt.Fprintf(&b, " %q%v%v%s", s.glyphs.text(c.char), p, c.half, link)
			}
			fmt.Fprintf(&b, " %v\n", l.wraps && y+1 < len(g.lines))
		}
		fmt.Fprintf(&b, "%s saved %s\n", name, words(s, g.saved))
	}
	fmt.Fprintf(&b, "cursor %s\nregion %d %d\ntabs %v\nmodes %b\n", words(s, s.area.cursor), s.area.top, s.area.bottom, s.area.tabs, s.modes&^synced)
	fmt.Fprintf(&b, "style %d keys %d title %q icon %q aside %q colors %v", s.style, s.other, s.names.title, s.names.icon, s.names.titles, s.names.colors)
	return b.String()
}

func words(s *Screen, c cursor) string {
	link := s.glyphs.links[c.pen.link]
	c.pen.link = 0
	return fmt.Sprintf("%+v %s", c, link)
}

// repainted is a screen that got what another painted.
func repainted(s *Screen) *Screen {
	other := New(s.area.rows, s.area.cols)
	other.Write(s.Paint())
	return other
}

func same(t interface {
	Helper()
	Errorf(string, ...any)
}, what string, a, b *Screen) {
	t.Helper()
	one, two := strings.Split(everything(a), "\n"), strings.Split(everything(b), "\n")
	for i := range max(len(one), len(two)) {
		if i >= len(one) || i >= len(two) || one[i] != two[i] {
			t.Errorf("%s: line %d differs:\n%s\n%s", what, i, one[min(i, len(one)-1)], two[min(i, len(two)-1)])
			return
		}
	}
}

var atoms = []string{
	"a", "hello", "the quick brown fox jumps over the lazy dog", "é", "漢字", "e\u0301", "👍", "\u200d", "\r", "\n", "\r\n", "\t", "\b", "\x0e", "\x0f",
	"\x1b7", "\x1b8", "\x1bD", "\x1bM", "\x1bE", "\x1bH", "\x1b=", "\x1b>", "\x1b(0", "\x1b(B", "\x1b)0", "\x1bn", "\x1b#8", "\x1bc",
	"\x1b[%dA", "\x1b[%dB", "\x1b[%dC", "\x1b[%dD", "\x1b[%dG", "\x1b[%d;%dH", "\x1b[%dd", "\x1b[%dJ", "\x1b[%dK", "\x1b[%dL", "\x1b[%dM",
	"\x1b[%dP", "\x1b[%dX", "\x1b[%d@", "\x1b[%dS", "\x1b[%dT", "\x1b[%db", "\x1b[%d;%dr", "\x1b[r", "\x1b[%dg", "\x1b[%dI", "\x1b[%dZ",
	"\x1b[0;1;%d;%dm", "\x1b[m", "\x1b[38;5;%dm", "\x1b[48;2;%d;%d;7m", "\x1b[4:3;58:5:%dm", "\x1b[%dm", "\x1b[3%dm", "\x1b[4%dm", "\x1b[10%dm",
	"\x1b[?%dh", "\x1b[?%dl", "\x1b[4h", "\x1b[4l", "\x1b[20h", "\x1b[?6h", "\x1b[?6l", "\x1b[?7l", "\x1b[?7h", "\x1b[?25l", "\x1b[?1049h", "\x1b[?1049l",
	"\x1b[?47h", "\x1b[?47l", "\x1b[?1003h", "\x1b[?1006h", "\x1b[?2004h", "\x1b[?1h", "\x1b[!p", "\x1b[%d q", "\x1b[s", "\x1b[u", "\x1b[>4;2m",
	"\x1b]0;title %d\x07", "\x1b]2;x\x1b\\", "\x1b]8;id=%d;http://a/?b\x1b\\", "\x1b]8;;\x07", "\x1b]4;%d;#fff\x07", "\x1b]11;rgb:0/0/0\x07", "\x1b]104\x07",
	"\x1b[22t", "\x1b[23t", "\x1b[c", "\x1b[6n", "\x1bP$qm\x1b\\", "\x1b[", "\x1b]2;half", "\x18", "\xff", "\xe2\x82", "\u009b1m",
}

// output draws what a program may print.
func output(t *rapid.T) []byte {
	var b []byte
	for range rapid.IntRange(0, 40).Draw(t, "atoms") {
		atom := rapid.SampledFrom(atoms).Draw(t, "atom")
		var args []any
		for range strings.Count(atom, "%d") {
			args = append(args, rapid.IntRange(0, 12).Draw(t, "n"))
		}
		b = fmt.Appendf(b, atom, args...)
	}
	return b
}

// TestPaint: what Paint gives makes a new screen the same, and it goes on the same.
func TestPaint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New(rapid.IntRange(1, 6).Draw(t, "rows"), rapid.IntRange(1, 12).Draw(t, "cols"))
		all := output(t)
		s.Write(all)
		if rapid.Bool().Draw(t, "resized") {
			s.Resize(rapid.IntRange(1, 6).Draw(t, "rows"), rapid.IntRange(1, 12).Draw(t, "cols"))
		}
		other := repainted(s)
		same(t, "painted", s, other)
		if s.Dropped() == 0 {
			all = all[s.Offset():]
		}
		more := output(t)
		other.Write(all)
		if other.last == 0 || s.last == 0 { // what was printed elsewhere, or before anything else, can't be repeated
			s.last, other.last = 0, 0
		}
		other.Write(more)
		s.Write(more)
		same(t, "gone on", s, other)
		dirty := New(s.area.rows, s.area.cols)
		dirty.Write(output(t))
		dirty.Write(s.Paint())
		dirty.last, s.last = 0, 0
		same(t, "painted over another", s, dirty)
	})
}

// TestPieces: how output is cut makes no difference.
func TestPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole, cut := New(4, 10), New(4, 10)
		all := output(t)
		answers := whole.Write(all)
		var said []byte
		for _, b := range all {
			said = append(said, cut.Write([]byte{b})...)
		}
		same(t, "cut", whole, cut)
		if !bytes.Equal(answers, said) || whole.Offset() != cut.Offset() {
			t.Errorf("answers %q and %q, offsets %d and %d", answers, said, whole.Offset(), cut.Offset())
		}
	})
}

// TestNothingAsks: neither a painted screen nor filtered output is answered, and filtered output shows the same.
func TestNothingAsks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, filtered := New(4, 10), New(4, 10)
		f := NewFilter(0, 0)
		for range rapid.IntRange(1, 4).Draw(t, "writes") {
			b := output(t)
			s.Write(b)
			if answers := filtered.Write(f.Write(b)); len(answers) > 0 {
				t.Errorf("filtered output is answered with %q", answers)
			}
		}
		filtered.last, s.last = 0, 0
		same(t, "filtered", s, filtered)
		if s.Offset() != f.Offset() {
			t.Errorf("offsets %d and %d", s.Offset(), f.Offset())
		}
		if answers := New(4, 10).Write(s.Paint()); len(answers) > 0 {
			t.Errorf("a screen is answered with %q", answers)
		}
	})
}
