package screen

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// pair is a screen and xterm.js, which take the same, and another xterm.js that gets what the screen paints.
type pair struct {
	t       *testing.T
	screen  *Screen
	xterm   *xterm
	painted *xterm
	follows bool   // painted takes what comes, as well
	all     []byte // what was written
}

func newPair(t *testing.T, x, painted *xterm, rows, cols int) *pair {
	p := &pair{t: t, screen: New(rows, cols), xterm: x, painted: painted}
	p.compare("at first", nil, x.ask(request{New: true, Size: []int{rows, cols}}))
	return p
}

// broken are sequences in which something stands that isn't ASCII. They end there, and what it is shows.
var broken = regexp.MustCompile(`(\x1b[\x00-\x17\x19\x1c-/]*(?:\[[\x00-\x17\x19\x1c-?]*)?)([^\x00-\x7f])`)

// inString are control strings up to a control sequence of U+009B, which is text in there.
var inString = regexp.MustCompile(`(\x1b[\]PX^_][^\x07\x18\x1a\x1b\x{9b}]*)\x{9b}`)

// within is the rest of a sequence, up to what isn't ASCII.
var within = regexp.MustCompile(`^([\x00-\x17\x19\x1c-?]*)([^\x00-\x7f])`)

// tell gives what has xterm.js take b in a state as it should be taken: it goes on with what is broken, and ends strings.
func tell(in state, b []byte) []byte {
	b = broken.ReplaceAll(b, []byte("$1\x18$2"))
	switch in {
	case escape, control, escaped:
		b = within.ReplaceAll(b, []byte("$1\x18$2"))
	case text, dropping:
		end := bytes.IndexAny(b, "\x07\x18\x1a\x1b")
		if end < 0 {
			end = len(b)
		}
		b = append(bytes.ReplaceAll(b[:end], []byte("\u009b"), nil), b[end:]...)
	}
	for inString.Match(b) {
		b = inString.ReplaceAll(b, []byte("$1"))
	}
	return b
}

// write has all take b. They are compared, unless quiet.
func (p *pair) write(b []byte, quiet bool) {
	p.t.Helper()
	r := request{Write: tell(p.screen.parser.state, b), Quiet: quiet}
	p.all = append(p.all, b...)
	answers := p.screen.Write(b)
	p.compare(fmt.Sprintf("after %q", b), answers, p.xterm.ask(r))
	if p.follows {
		p.compare(fmt.Sprintf("painted, and after %q", b), answers, p.painted.ask(r))
	}
}

func (p *pair) resize(rows, cols int) {
	p.t.Helper()
	p.follows = false
	p.screen.Resize(rows, cols)
	p.compare(fmt.Sprintf("with %d rows and %d columns", rows, cols), nil, p.xterm.ask(request{Size: []int{rows, cols}}))
}

// paint has a terminal show what the screen does, after all that it has shown before.
func (p *pair) paint() {
	p.t.Helper()
	b := p.screen.Paint()
	p.compare(fmt.Sprintf("painted with %q", bytes.TrimPrefix(b, []byte(clean))), nil, p.painted.ask(request{Size: []int{p.screen.area.rows, p.screen.area.cols}, Write: b}))
	// What isn't printed again can't be repeated, and what fills a line is.
	_, again := printedLast(p.screen, p.screen.area.cursor.sets[p.screen.area.cursor.shift] == 'B')
	if p.follows = p.screen.Dropped() == 0 && again == (p.screen.last != 0); p.follows {
		p.painted.ask(request{Write: tell(ground, p.all[p.screen.Offset():])}) // what isn't complete
	}
}

// compare passes over what comes before the end of a sequence that has a control in it: xterm.js carries that out at
// once, a screen with the sequence.
func (p *pair) compare(when string, answers []byte, theirs []string) {
	p.t.Helper()
	p.t.Log(when)
	if in := &p.screen.parser; in.state != ground && in.state != partial && len(in.raw) > 0 && bytes.ContainsFunc(in.raw[1:], unicode.IsControl) {
		return
	}
	ours := []string{answered(answers)}
	if len(theirs) > 1 { // it wasn't to be quiet
		ours = picture(p.screen, answers)
	}
	if d := differ(ours, theirs); d != "" && !p.t.Failed() {
		p.t.Errorf("%s:\n%s", when, d)
	}
}

// frames are what a recording has; see e2e/programs/cmd.
func frames(t *testing.T, path string, size func(rows, cols int), output func(b []byte)) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	for len(all) > 0 {
		head, rest, _ := bytes.Cut(all, []byte{'\n'})
		var n, m int
		if k, _ := fmt.Sscanf(string(head), "size %d %d", &n, &m); k == 2 {
			size(n, m)
		} else if k, _ := fmt.Sscanf(string(head), "output %d", &n); k == 1 && n <= len(rest) {
			output(rest[:n])
			rest = rest[n:]
		} else {
			t.Fatalf("%s: no frame begins with %q", path, head)
		}
		all = rest
	}
}

// TestXtermPrograms: what real programs printed shows in a screen as in xterm.js, after some pieces of it and after other
// sizes; with DIAPAUSE_LONG after each piece.
func TestXtermPrograms(t *testing.T) {
	t.Parallel()
	x, painted := newXterm(t), newXterm(t)
	paths, err := filepath.Glob("testdata/programs/*.gz")
	if err != nil || len(paths) < 33 {
		t.Fatalf("%d recordings: %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".gz"), func(t *testing.T) {
			x.t, painted.t = t, t
			var p *pair
			n := 0
			frames(t, path, func(rows, cols int) {
				if p == nil {
					p = newPair(t, x, painted, rows, cols)
					return
				}
				p.resize(rows, cols)
			}, func(b []byte) {
				if t.Failed() {
					return
				}
				n++
				p.write(b, n%4 > 0 && os.Getenv("DIAPAUSE_LONG") == "")
				if n%8 == 0 {
					p.paint()
				}
			})
			p.paint()
		})
	}
}

// TestXtermRandom: random output shows in a screen as in xterm.js, in pieces and with other sizes between. A seed that
// fails is a test of its own.
func TestXtermRandom(t *testing.T) {
	t.Parallel()
	seeds := uint64(60)
	if os.Getenv("DIAPAUSE_LONG") != "" {
		seeds = 2500
	}
	x, painted := newXterm(t), newXterm(t)
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			x.t, painted.t = t, t
			random(rand.New(rand.NewPCG(seed, 0)), t, x, painted)
		})
	}
}

// random writes, resizes and paints. There are two rows at least: in one, xterm.js blanks the wrong line where a
// wide character has no room.
func random(r *rand.Rand, t *testing.T, x, painted *xterm) {
	p := newPair(t, x, painted, 2+r.IntN(8), 2+r.IntN(16))
	for n := 0; n < 30 && !t.Failed(); n++ {
		switch r.IntN(12) {
		case 0:
			p.resize(2+r.IntN(8), 2+r.IntN(16))
		case 1:
			p.paint()
		default:
			p.write(randomOutput(r), false)
		}
	}
}

// randomOutput is what a program may print.
func randomOutput(r *rand.Rand) (b []byte) {
	for range 1 + r.IntN(4) {
		atom := atoms[r.IntN(len(atoms))]
		var args []any
		for range strings.Count(atom, "%d") {
			args = append(args, r.IntN(13))
		}
		if atom := fmt.Appendf(nil, atom, args...); !unlike.Match(atom) {
			b = append(b, atom...)
		}
	}
	return b
}

// unlike are sequences that xterm.js knows, or we do: from VT52, and a second kind of blinking. After a question that
// is a string, it doesn't repeat a character.
var unlike = regexp.MustCompile(`\x1b\[(\?2h|([0-9;]*;)?6m|[0-9;]*;6;[0-9;]*m)|\x1bP`)
