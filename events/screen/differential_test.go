package screen

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pair is a screen and xterm.js, which take the same, and another xterm.js that gets what the screen paints.
type pair struct {
	t       *testing.T
	name    string
	screen  *Screen
	xterm   *xterm
	painted *xterm
	follows bool   // painted takes what comes, as well
	all     []byte // what was written
	failed  bool
}

func newPair(t *testing.T, x, painted *xterm, name string, rows, cols int) *pair {
	p := &pair{t: t, name: name, screen: New(rows, cols), xterm: x, painted: painted}
	p.compare("at first", nil, x.ask(request{New: true, Size: []int{rows, cols}}))
	return p
}

// broken are sequences in which something stands that isn't ASCII. They end there, and what it is shows; xterm.js
// goes on with the sequence, unless it is told.
var broken = regexp.MustCompile(`(\x1b[\x00-\x17\x19\x1c-/]*(?:\[[\x00-\x17\x19\x1c-?]*)?)([^\x00-\x7f])`)

func (p *pair) write(b []byte) {
	p.t.Helper()
	told := broken.ReplaceAll(b, []byte("$1\x18$2"))
	switch state := p.screen.parser.state; {
	case len(b) == 0 || b[0] < 0x80:
	case state == escape, state == control, state == escaped:
		told = append([]byte{can}, told...)
	}
	when := fmt.Sprintf("after %q", b)
	p.all = append(p.all, b...)
	answers := p.screen.Write(b)
	p.compare(when, answers, p.xterm.ask(request{Write: told}))
	if p.follows {
		p.compare("painted, and "+when, answers, p.painted.ask(request{Write: told}))
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
	p.compare(fmt.Sprintf("painted with %q", b), nil, p.painted.ask(request{Size: []int{p.screen.area.rows, p.screen.area.cols}, Write: b}))
	if p.follows = p.screen.Dropped() == 0; p.follows {
		p.painted.ask(request{Write: p.all[p.screen.Offset():]})
	}
}

func (p *pair) compare(when string, answers []byte, theirs []string) {
	p.t.Helper()
	if d := differ(picture(p.screen, answers), theirs); d != "" && !p.failed {
		p.failed = true
		p.t.Errorf("%s %s:\n%s", p.name, when, d)
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

// TestXtermPrograms: what real programs printed shows in a screen as in xterm.js, after each piece of it.
func TestXtermPrograms(t *testing.T) {
	x, painted := newXterm(t), newXterm(t)
	paths, err := filepath.Glob("testdata/programs/*.gz")
	if err != nil || len(paths) < 33 {
		t.Fatalf("%d recordings: %v", len(paths), err)
	}
	for _, path := range paths {
		var p *pair
		n := 0
		frames(t, path, func(rows, cols int) {
			if p == nil {
				p = newPair(t, x, painted, strings.TrimSuffix(filepath.Base(path), ".gz"), rows, cols)
				return
			}
			p.resize(rows, cols)
		}, func(b []byte) {
			if !p.failed {
				p.write(b)
			}
			if n++; n%5 == 0 && !p.failed {
				p.paint()
			}
		})
	}
}
