package screen

import "testing"

// written is a screen of 4 rows and 10 columns that got some output.
func written(output string) *Screen {
	s := New(4, 10)
	s.Write([]byte(output))
	return s
}

// TestEraseAfterLastColumn: while the cursor waits behind the last column, nothing is to its right.
func TestEraseAfterLastColumn(t *testing.T) {
	for _, c := range []struct{ output, shows string }{
		{"0123456789\x1b[K", "0123456789"},
		{"\n\rbelow\x1b[H0123456789\x1b[J", "0123456789"},
		{"0123456789\x1b[Kx", "0123456789\nx"},
		{"0123456789\x1b[2Kx", "\nx"},
		{"0123456789\x1b[1Kx", "\nx"},
		{"\n\n\r0123456789\x1b[1A\x1b[2C\x1b[J", ""},
	} {
		if got := show(written(c.output)); got != c.shows {
			t.Errorf("%q shows %q, want %q", c.output, got, c.shows)
		}
	}
}

// TestWidths: characters take as many cells as the C library says.
func TestWidths(t *testing.T) {
	for r, want := range map[rune]int{
		0x061c: 0, 0x180e: 0, 0x200d: 0, 0xd7b0: 0, 0xd7c6: 0, 0xd7fb: 0, 0xfff9: 0, 0x13430: 0, 0x1bca3: 0, 0x1d173: 0, 0xe0001: 0, 0xe0100: 0,
		0x3247: 2, 0x3248: 2, 0x324f: 2, 0x4dbf: 2, 0x4dc0: 2, 0x4dff: 2, 0x4e00: 2,
		0x00ad: 1, 0x0605: 1, 0xd7c7: 1, 0xfffd: 1,
	} {
		if got := width(r); got != want {
			t.Errorf("U+%04X takes %d cells, want %d", r, got, want)
		}
	}
}

// TestWrapsEnd: a line's text doesn't go on in one that took the place of the next, or was erased.
func TestWrapsEnd(t *testing.T) {
	const long = "0123456789abc"
	for _, c := range []struct {
		output string
		row    int
		wraps  bool
	}{
		{long, 0, true},
		{"\x1b[4;1H" + long, 2, true},
		{"\x1b[3;1H" + long + "\x1b[1;3r\x1b[3;1H\n", 1, false},
		{"\x1b[1;3r\x1b[3;1H" + long, 1, true},
		{long + "\x1b[2K", 0, false},
		{long + "\x1b[1K", 0, true},
		{long + "\x1b[G\x1b[K", 0, false},
		{long + "\x1b[2;2H\x1b[J", 0, true},
		{long + "\x1b[2;1H\x1b[J", 0, false},
		{long + "\x1b[2;1H\x1b[L", 0, false},
		{long + "\x1b[2;4r\x1b[2;1H\x1bM", 0, false},
	} {
		if got := written(c.output).main.lines[c.row].wraps; got != c.wraps {
			t.Errorf("%q: row %d wraps %v", c.output, c.row, got)
		}
	}
}

// TestTitlesPutAside: only what takes the window's title is put aside as it, and the oldest is dropped.
func TestTitlesPutAside(t *testing.T) {
	for _, c := range []struct{ output, title string }{
		{"\x1b]2;a\a\x1b[22t\x1b]2;b\a\x1b[23t", "a"},
		{"\x1b]2;a\a\x1b[22;2t\x1b]2;b\a\x1b[22;1t\x1b]2;c\a\x1b[23;1t\x1b[23;2t", "a"},
		{"\x1b]2;a\a\x1b[22;0;0t\x1b]2;b\a\x1b[23;0;0t", "a"},
	} {
		if got := written(c.output).Title(); got != c.title {
			t.Errorf("%q: title %q, want %q", c.output, got, c.title)
		}
	}
	s := written("")
	for i := range maxTitles + 1 {
		s.Write([]byte{0x1b, ']', '2', ';', 'a' + byte(i), bel})
		s.Write([]byte("\x1b[22;2t"))
	}
	if s.Write([]byte("\x1b]2;last\a\x1b[23;2t")); s.Title() != string(rune('a'+maxTitles)) {
		t.Errorf("the title is %q again", s.Title())
	}
}

// TestResetKeepsTitle: a reset of the terminal, of which a program may not know, leaves the window its title.
func TestResetKeepsTitle(t *testing.T) {
	if s := written("\x1b]2;kept\a\x1b[31mtext\x1bc"); s.Title() != "kept" || show(s) != "" {
		t.Errorf("title %q over %q", s.Title(), show(s))
	}
}

// TestRepeat: what was printed just before is repeated, with its marks and as often as it was said.
func TestRepeat(t *testing.T) {
	for _, c := range []struct{ output, shows string }{
		{"a\x1b[2b", "aaa"},
		{"e\u0301\x1b[2b", "e\u0301e\u0301e\u0301"},
		{"a\x1b[1m\x1b[2b", "aaa"},
		{"a\b\x1b[2b", "a"},
		{"a\x1b[>4;1m\x1b[2b", "a"},
		{"漢\x1b[1004b", "漢漢漢漢漢\n漢漢漢漢漢\n漢漢漢漢漢\n漢漢漢漢漢"},
		{"漢\x1b[1001b", "漢漢漢漢漢\n漢漢漢漢漢\n漢漢漢漢漢\n漢漢"},
	} {
		if got := show(written(c.output)); got != c.shows {
			t.Errorf("%q shows %q, want %q", c.output, got, c.shows)
		}
	}
}

// TestMarkInLastColumn: a mark joins the character that was printed last, also in the last column without autowrap.
func TestMarkInLastColumn(t *testing.T) {
	for _, output := range []string{"\x1b[?7l\x1b[9Gabe\u0301", "\x1b[?7l\x1b[9Gae\u0301", "\x1b[9Gae\u0301"} {
		s := written(output)
		if got := s.Text(0); got != "        ae\u0301" {
			t.Errorf("%q shows %q", output, got)
		}
		same(t, "painted", s, repainted(s))
	}
}

// TestStaysOnMain: leaving the alternate screen does nothing on the main one.
func TestStaysOnMain(t *testing.T) {
	for _, mode := range []string{"47", "1047"} {
		if got := show(written("0123456789\x1b[?" + mode + "lx")); got != "0123456789\nx" {
			t.Errorf("with mode %s it shows %q", mode, got)
		}
	}
}

// TestResizeBehindAlternate: the main screen keeps the lines around its cursor while the other one is shown.
func TestResizeBehindAlternate(t *testing.T) {
	for _, output := range []string{"1\r\n2\r\n3\r\n4\x1b[?47h", "1\r\n2\r\n3\r\n4\x1b[?1049h\x1b[Hx"} {
		s := written(output)
		s.Resize(2, 10)
		s.Write([]byte("\x1b[?47l"))
		if got := show(s); got != "3\n4" {
			t.Errorf("%q shows %q", output, got)
		}
	}
}

// TestNoRoomForWide: the cell in which half a wide character would have room looks like the text.
func TestNoRoomForWide(t *testing.T) {
	s := written("\x1b[9Ga\x1b[7m漢")
	if last := s.main.lines[0].cells[9]; s.glyphs.pens[last.pen].flags != inverse || last.char != ' ' {
		t.Errorf("the last cell is %v", last)
	}
}
