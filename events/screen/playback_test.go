package screen

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

// event is one of a recording.
type event struct {
	at         int64
	code, data string
}

// transcript gives the lines of a recording, with the gaps.
func transcript(events ...event) string {
	var b strings.Builder
	p := NewPlayback()
	p.Lines(func(l Line) { b.WriteString(l.Text()) }, func(n int64) { fmt.Fprintf(&b, "[%d]\n", n) })
	for _, e := range events {
		p.Event(e.at, e.code, []byte(e.data))
	}
	p.End()
	return b.String()
}

func TestTranscript(t *testing.T) {
	painted := New(3, 10)
	painted.Write([]byte("later\r\n\x1b[31mre"))
	frame := "10x3\n" + string(Frame(painted, 1<<20))
	for name, c := range map[string]struct {
		events []event
		want   string
	}{
		"nothing":               {nil, ""},
		"lines":                 {[]event{{0, "r", "10x3"}, {0, "o", "1\r\n2\r\n3\r\n4\r\n\r\n5"}}, "1\n2\n3\n4\n\n5\n"},
		"progress":              {[]event{{0, "r", "10x3"}, {0, "o", "10%\r"}, {4, "o", "100%\r\ndone\r\n"}}, "100%\ndone\n"},
		"a long line":           {[]event{{0, "r", "10x3"}, {0, "o", strings.Repeat("0123456789", 5) + "x\r\nnext"}}, strings.Repeat("0123456789", 5) + "x\nnext\n"},
		"cleared":               {[]event{{0, "r", "10x3"}, {0, "o", "one\r\n\x1b[H\x1b[2J\x1b[3Jtwo\x1bcthree\x1b[H\x1b[Jfour"}}, "one\ntwo\nthree\nfour\n"},
		"second screen":         {[]event{{0, "r", "10x3"}, {0, "o", "one\r\n\x1b[?1049hvim\r\n\r\n\r\n\r\n\x1b[2J\x1b[?1049ltwo"}}, "one\ntwo\n"},
		"left in it":            {[]event{{0, "r", "10x3"}, {0, "o", "one\r\n\x1b[?1049hvim"}}, "one\n"},
		"smaller":               {[]event{{0, "r", "10x3"}, {0, "o", "1\r\n2\r\n3"}, {7, "r", "10x1"}, {7, "o", "!"}}, "1\n2\n3!\n"},
		"smaller in the second": {[]event{{0, "r", "10x6"}, {0, "o", "1\r\n2\r\n3\r\n4\r\n5\r\n6\x1b[?1049h"}, {24, "r", "10x3"}, {24, "o", "\x1b[?1049l!"}}, "1\n2\n3\n4\n5\n6!\n"},
		"scrolled":              {[]event{{0, "r", "10x3"}, {0, "o", "1\r\n2\r\n3\x1b[2S"}}, "1\n2\n3\n"},
		"a region":              {[]event{{0, "r", "10x3"}, {0, "o", "\x1b[2;3r\x1b[3;1H1\n2\n3\n4"}}, "\n  3\n   4\n"},
		"known frames":          {[]event{{0, "r", "10x3"}, {0, "o", "one\r\n"}, {5, "k", frame}, {5, "o", "two"}}, "one\ntwo\n"},
		"a gap": {[]event{{0, "r", "10x3"}, {0, "o", "one\r\n"}, {5, "g", "100"}, {105, "o", "lost"}, {109, "k", frame[:50]}, {109, "k", frame[50:]}, {109, "o", "d\r\nx\r\ny"}},
			"one\nlost\n[100]\nlater\nred\nx\ny\n"},
		"missing, unsaid": {[]event{{0, "o", "one"}, {50, "k", frame}, {50, "o", "d"}}, "one\nlater\nred\n"},
		"trimmed":         {[]event{{50, "r", "20x5"}, {50, "k", frame}, {50, "o", "d"}}, "later\nred\n"},
		"ends in a gap":   {[]event{{0, "o", "one"}, {3, "g", "7"}}, "one\n[7]\n"},
		"bad data":        {[]event{{0, "r", "x"}, {0, "g", "-1"}, {0, "k", "frame"}, {7, "k", "10x\nx"}, {7, "later", "x"}, {7, "o", "one"}}, "one\n"},
	} {
		if got := transcript(c.events...); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// What is missing before a frame isn't told to those who take lines after it.
func TestGapBeforeLines(t *testing.T) {
	p := NewPlayback()
	p.Event(0, "g", []byte("7"))
	p.Event(7, "k", []byte("10x3\none"))
	p.Lines(func(Line) {}, func(n int64) { t.Errorf("%d bytes are missing", n) })
	p.Event(7, "o", []byte("two"))
	p.End()
}

// TestFrame: a screen that gets a frame, and what was printed after it, is the same, wherever the frame was taken.
func TestFrame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New(rapid.IntRange(1, 6).Draw(t, "rows"), rapid.IntRange(1, 12).Draw(t, "cols"))
		all := output(t)
		cut := rapid.IntRange(0, len(all)).Draw(t, "cut")
		s.Write(all[:cut])
		frame := Frame(s, 1<<20)
		other := New(s.area.rows, s.area.cols)
		other.Write(frame)
		if other.last == 0 || s.last == 0 { // what was printed before anything else can't be repeated
			s.last, other.last = 0, 0
		}
		s.Write(all[cut:])
		other.Write(all[cut:])
		s.last, other.last = 0, 0
		same(t, "gone on", s, other)
		if n := len(frame); Frame(s, 1) != nil || n > 1<<20 {
			t.Errorf("a frame has %d bytes", n)
		}
	})
}

// What is too long to be kept doesn't show, and what follows on it does.
func TestFrameWithinLongString(t *testing.T) {
	for _, c := range []struct{ begin, end string }{{"\x1b]2;", "\a"}, {"\x1b]2;", "\x1b\\"}, {"\x1bP", "\x1b\\"}} {
		for _, cut := range []string{"", "\x1b"} {
			s, other := New(2, 20), New(2, 20)
			s.Write([]byte("a" + c.begin + strings.Repeat("x", MaxString+1) + cut))
			if s.Dropped() == 0 {
				t.Error("it isn't too long")
			}
			other.Write(Frame(s, 1<<20))
			rest := strings.TrimPrefix(c.end, cut)
			if cut != "" && c.end == "\a" {
				continue
			}
			for _, to := range []*Screen{s, other} {
				to.Write([]byte("more" + rest + "b"))
			}
			if cut == "" && (other.Text(0) != "ab" || other.Title() != "") {
				t.Errorf("%q: it shows %q, %q", c, other.Text(0), other.Title())
			}
			same(t, c.begin, s, other)
		}
	}
}

// A program whose cells have a long link each can't make a frame large, nor take long.
func TestFrameIsBounded(t *testing.T) {
	s := New(maxRows, maxCols)
	var links [2]string
	for i := range links {
		links[i] = fmt.Sprintf("\x1b]8;;%d%s\x1b\\x", i, strings.Repeat("y", maxTitle-2))
	}
	for i := range 2000 {
		s.Write([]byte(links[i%2]))
	}
	if b := paint(s, 100<<10, false); len(b) > 110<<10 {
		t.Errorf("it painted %d bytes", len(b))
	}
	if b := Frame(s, 10<<10); b != nil {
		t.Errorf("a frame has %d bytes", len(b))
	}
	plain := New(maxRows, maxCols)
	if plain.Write(Frame(s, 100<<10)); plain.Text(1) != s.Text(1) || len(plain.glyphs.links) > 1 {
		t.Errorf("without links a frame shows %q, %d links", plain.Text(1), len(plain.glyphs.links)-1)
	}
	if b := Frame(s, 16<<20); len(b) < 100<<10 {
		t.Errorf("for one that takes more it has %d bytes", len(b))
	}
	for i := range 10000 {
		s.Write([]byte(links[i%2]))
	}
	if b := s.Paint(); len(b) > maxPaint {
		t.Errorf("a screen is %d bytes", len(b))
	}
}

// TestView: a terminal that gets updates shows the same as the screen, as far as it fits, and nothing of the program's but characters.
func TestView(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New(rapid.IntRange(1, 6).Draw(t, "rows"), rapid.IntRange(1, 12).Draw(t, "cols"))
		rows, cols := rapid.IntRange(1, 8).Draw(t, "rows"), rapid.IntRange(2, 14).Draw(t, "cols")
		terminal, v := New(rows, cols), NewView(rows, cols)
		for range rapid.IntRange(1, 4).Draw(t, "updates") {
			s.Write(output(t))
			if rapid.Bool().Draw(t, "resized") {
				s.Resize(rapid.IntRange(1, 6).Draw(t, "rows"), rapid.IntRange(1, 12).Draw(t, "cols"))
			}
			if answers := terminal.Write(v.Update(s, "")); len(answers) > 0 {
				t.Errorf("it is answered with %q", answers)
			}
		}
		from := max(0, s.area.cursor.y-rows+1)
		for y := range rows {
			if want := ofCols(s, from+y, cols); terminal.Text(y) != want {
				t.Errorf("row %d is %q, want %q", y, terminal.Text(y), want)
			}
		}
		plain := New(rows, cols)
		terminal.Write([]byte("\x1b[?25h"))
		if terminal.Title() != "" || terminal.Alternate() || terminal.modes != plain.modes || len(terminal.names.colors) > 0 || len(terminal.glyphs.links) > 1 {
			t.Error("the terminal got something of the program")
		}
	})
}

// ofCols is what a row shows in its first columns.
func ofCols(s *Screen, row, cols int) string {
	if row >= s.area.rows {
		return ""
	}
	cells := s.shown().lines[row].cells
	if cols < len(cells) {
		cells = cells[:cols]
		if cells[cols-1].half == left {
			cells = cells[:cols-1]
		}
	}
	return strings.TrimRight(cellsText(s.glyphs, cells), " ")
}

func TestViewPaintsWhatChanged(t *testing.T) {
	s, v := New(3, 20), NewView(3, 20)
	s.Write([]byte("one\r\ntwo"))
	v.Update(s, "")
	s.Write([]byte("!"))
	if b := string(v.Update(s, "")); !strings.Contains(b, "two!") || strings.Contains(b, "one") || strings.Contains(b, "[2J") {
		t.Errorf("it paints %q", b)
	}
	if b := string(v.Update(s, "paused")); !strings.Contains(b, "\x1b[7m paused \x1b[m") {
		t.Errorf("with a note it paints %q", b)
	}
	if got := v.Rows(s); got != "one\r\ntwo!\r\n" {
		t.Errorf("its rows are %q", got)
	}
	v.Resize(2, 10)
	if b := string(v.Update(s, "")); !strings.Contains(b, "one") || v.Fits(s) {
		t.Errorf("after a resize it paints %q", b)
	}
}

// What would have a row be read in another order isn't shown.
func TestViewWithoutBidi(t *testing.T) {
	s, v := New(2, 40), NewView(2, 40)
	for r := range unicode.MaxRune {
		if unicode.Is(unicode.Bidi_Control, r) {
			s.Write([]byte("a" + string(r)))
		}
	}
	if strings.Count(s.Text(0), "a") != 12 || s.Text(0) == strings.Repeat("a", 12) {
		t.Errorf("the screen has %q", s.Text(0))
	}
	for _, text := range []string{string(v.Update(s, "")), v.Rows(s)} {
		if !strings.Contains(text, strings.Repeat("a", 12)) {
			t.Errorf("it paints %q", text)
		}
	}
}
