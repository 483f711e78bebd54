package screen

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// xterm is xterm.js, a terminal emulator that others wrote, in a process of its own.
type xterm struct {
	t    *testing.T
	to   io.WriteCloser
	from *bufio.Reader
}

// request is what a line to testdata/xterm/peer.mjs says.
type request struct {
	Widths [][2]int `json:"widths,omitempty"`
	New    bool     `json:"new,omitempty"`
	Size   []int    `json:"size,omitempty"`
	Write  []byte   `json:"write,omitempty"`
	Quiet  bool     `json:"quiet,omitempty"` // the answers are enough
}

func newXterm(t *testing.T) *xterm {
	t.Helper()
	modules := filepath.Join(cmp.Or(os.Getenv("DIAPAUSE_PREFIX"), "/opt/diapause"), "node", "xterm", "node_modules")
	if _, err := os.Stat(modules); err != nil {
		t.Fatalf("%v; `make setup-test` installs the npm packages", err)
	}
	cmd := exec.Command("node", filepath.Join("testdata", "xterm", "peer.mjs"), modules)
	cmd.Stderr = os.Stderr
	to, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	from, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v; `make setup-test` installs Node.js", err)
	}
	t.Cleanup(func() {
		to.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("xterm.js ended with %v", err)
		}
	})
	x := &xterm{t, to, bufio.NewReader(from)}
	x.ask(request{Widths: widths(), New: true, Size: []int{1, 1}})
	return x
}

// widths are the characters from which on another width holds.
var widths = sync.OnceValue(func() (all [][2]int) {
	last := -1
	for r := range rune(utf8.MaxRune + 1) {
		if w := width(r); w != last {
			all = append(all, [2]int{int(r), w})
			last = w
		}
	}
	return all
})

// ask carries out a request, and gives what the terminal has then.
func (x *xterm) ask(r request) (picture []string) {
	x.t.Helper()
	line, err := json.Marshal(r)
	if err != nil {
		x.t.Fatal(err)
	}
	if _, err = x.to.Write(append(line, '\n')); err == nil {
		line, err = x.from.ReadBytes('\n')
	}
	if err == nil {
		err = json.Unmarshal(line, &picture)
	}
	if err != nil {
		x.t.Fatalf("ask xterm.js: %v", err)
	}
	last := &picture[len(picture)-1]
	*last = fmt.Sprintf("answers %q", named.ReplaceAllString(*last, ""))
	return picture
}

// picture is what a screen has, in the same words as xterm.ask.
func picture(s *Screen, answers []byte) []string {
	all := rows(s, "main", s.main)
	if s.alt != nil {
		all = append(all, rows(s, "alt", s.alt)...)
	}
	c, saved := s.area.cursor, s.shown().saved
	on := func(m modes) int {
		if s.modes.has(m) {
			return 1
		}
		return 0
	}
	flag := func(is bool) int {
		if is {
			return 1
		}
		return 0
	}
	mouse, format := "NONE", "DEFAULT"
	for m, name := range map[modes]string{mousePress: "X10", mouseClicks: "VT200", mouseDrags: "DRAG", mouseMoves: "ANY"} {
		if s.modes.has(m) {
			mouse = name
		}
	}
	for m, name := range map[modes]string{mouseSGR: "SGR", mousePixels: "SGR_PIXELS"} {
		if s.modes.has(m) {
			format = name
		}
	}
	var tabs []string
	for x, stop := range s.area.tabs {
		if stop && x > 0 { // the first column is always one
			tabs = append(tabs, fmt.Sprint(x))
		}
	}
	return append(all,
		fmt.Sprintf("cursor %d %d wrap %d %s %c", c.y, c.x, flag(c.wrap), look(s, c.pen), c.sets[c.shift]),
		fmt.Sprintf("saved %d %d %s", saved.y, saved.x, look(s, saved.pen)),
		fmt.Sprintf("region %d %d", s.area.top, s.area.bottom),
		"tabs "+strings.Join(tabs, " "),
		fmt.Sprintf("modes visible %d insert %d newline %d autowrap %d origin %d keys %d keypad %d paste %d backwrap %d mouse %s %s",
			on(visible), on(insert), on(newline), on(autowrap), flag(c.origin), on(appCursor), on(appKeypad), on(bracketed), on(backwrap), mouse, format),
		"title "+s.names.title,
		answered(answers))
}

func answered(answers []byte) string {
	return fmt.Sprintf("answers %q", named.ReplaceAll(answers, nil))
}

// named are answers that xterm.js doesn't have, or has always the same: its name, and settings.
var named = regexp.MustCompile(`\x1bP[^\x1b]*\x1b\\`)

// rows are the lines of a grid: text, with how it looks in braces where that changes, a mark after each wide
// character, and one where the text goes on in the next line.
func rows(s *Screen, name string, g *grid) []string {
	var all []string
	looks := map[uint16]string{}
	for y, l := range g.lines {
		var b strings.Builder
		now, blanks := "///", 0
		pen, is := uint16(0), "///"
		for _, c := range l.cells {
			if c.pen != pen {
				pen, is = c.pen, looks[c.pen]
			}
			if is == "" {
				is = look(s, s.glyphs.pens[c.pen])
				looks[c.pen] = is
			}
			switch {
			case c.half == right:
				continue
			case c.char == ' ' && is == "///" && now == "///":
				blanks++
				continue
			}
			b.WriteString(strings.Repeat(" ", blanks))
			blanks = 0
			if is != now {
				fmt.Fprintf(&b, "{%s}", is)
			}
			now = is
			b.WriteString(s.glyphs.text(c.char))
			if c.half == left {
				b.WriteString("›")
			}
		}
		if l.wraps && y+1 < len(g.lines) {
			b.WriteString("↵")
		}
		all = append(all, fmt.Sprintf("%s %d: %s", name, y, b.String()))
	}
	return all
}

// look is how a character looks.
func look(s *Screen, p pen) string {
	var b strings.Builder
	for i, flag := range []flags{bold, faint, italic, blink, inverse, hidden, struck, overlined} {
		if p.flags&flag != 0 {
			b.WriteByte("bfikrhso"[i])
		}
	}
	if kind := p.flags & underlineMask >> underlineShift; kind != 0 {
		fmt.Fprintf(&b, "u%d", kind)
	}
	for _, c := range []color{p.fore, p.back, p.line} {
		b.WriteByte('/')
		switch {
		case c&direct != 0:
			fmt.Fprintf(&b, "#%06x", int(c&0xffffff))
		case c&indexed != 0:
			fmt.Fprintf(&b, "i%d", int(c&0xffffff))
		}
	}
	if _, uri, ok := strings.Cut(s.glyphs.links[p.link], ";"); ok {
		b.WriteString("/" + uri)
	}
	return b.String()
}

// differ says what differs between two pictures; it is empty if nothing does.
func differ(ours, theirs []string) string {
	var b strings.Builder
	for i := range max(len(ours), len(theirs)) {
		var one, two string
		if i < len(ours) {
			one = ours[i]
		}
		if i < len(theirs) {
			two = theirs[i]
		}
		if one != two {
			fmt.Fprintf(&b, "ours:   %s\ntheirs: %s\n", one, two)
		}
	}
	return b.String()
}
