package marks

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// follow gives the commands that have ended, and the one that runs, with their output.
func follow(text string, cuts ...int) (ended []string, t *Tracker) {
	t = &Tracker{Line: func(echo []byte) string { return strings.TrimRight(string(echo), "\r\n") }}
	at := 0
	for _, end := range append(cuts, len(text)) {
		t.Write([]byte(text[at:end]), int64(at), noon, "person", func(c Command) {
			if c.Ended.IsZero() {
				return
			}
			exit := "?"
			if c.Exit != nil {
				exit = fmt.Sprint(*c.Exit)
			}
			ended = append(ended, fmt.Sprintf("%d %s in %s = %s: %s", c.Number, c.Text, c.Dir, exit, text[c.From:c.To]))
		})
		at = end
	}
	return ended, t
}

var shells = map[string]struct {
	text string
	want []string
}{
	"VS Code": {"\x1b]633;P;Cwd=/a\\x3bb\x07\x1b]633;A\x07$ \x1b]633;B\x07ls\r\n\x1b]633;E;ls \\x3b echo \\\\n;nonce\x07\x1b]633;C\x07one\r\n\x1b]633;D;0\x07\x1b]633;A\x07",
		[]string{"1 ls ; echo \\n in /a;b = 0: one\r\n"}},
	"fish 4": {"\x1b]7;file://host/tmp/%C3%BC\x1b\\\x1b]133;A;special_key=1\x1b\\> \x1b]133;B\x1b\\ls\r\n\x1b]133;C;cmdline_url=ls%20-l%3B\x1b\\out\r\n\x1b]133;D;2\x1b\\",
		[]string{"1 ls -l; in /tmp/ü = 2: out\r\n"}},
	"nushell":   {"\x1b]133;A\x1b\\> \x1b]133;B\x1b\\l\x1b]133;A\x1b\\> \x1b]133;B\x1b\\ls\r\n\x1b]133;C\x1b\\out\x1b]133;D;0\x1b\\", []string{"1 ls in  = 0: out"}},
	"a space":   {"\x1b]633;E; ls\x07\x1b]633;C\x07out\x1b]633;D;0\x07\x1b]133;B\x07 ls\x1b]133;C\x07out\x1b]133;D\x07", nil},
	"no end":    {"\x1b]633;E;a\x07\x1b]633;C\x07x\x1b]633;A\x07\x1b]633;E;b\x07\x1b]633;C\x07y\x1b]633;E;c\x07\x1b]633;C\x07z\x1b]633;D;1\x07\x1b]633;D;2\x07", []string{"1 a in  = ?: x", "2 b in  = ?: y\x1b]633;E;c\x07", "3 c in  = 1: z"}},
	"twice":     {"\x1b]633;E;a\x07\x1b]633;C\x07\x1b]133;C;cmdline_url=a\x07out\x1b]633;D;1\x07\x1b]133;D;1\x07", []string{"1 a in  = 1: out"}},
	"no text":   {"\x1b]133;C\x07out\x1b]133;D;0\x07", nil},
	"garbage":   {"\x1b]633;\x07\x1b]633\x07\x1b]633;Q;x\x07\x1b]133;E;no\x07\x1b]\x07\x1b]7;http://x\x07\x1b]633;E;\\xZZ\\\x07\x1b\x1b]633;C\x07\xff\x1b]633;D;x\x07", []string{"1 \\xZZ\\ in  = ?: \xff"}},
	"given up":  {"\x1b]633;E;no\x18\x1b]633;E;a\x1b]633;E;b\x07\x1b]633;C\x07\x1b]633;D;0\x07", []string{"1 b in  = 0: "}},
	"in others": {"\x1b]0;\x1b\\title\x07\x1bPq]633;C\x07\x1b\\\x1b]633;E;\xff\xc3\x07\x1b]633;C\x07\x1b]633;D;-1\x07", []string{"1 \ufffd in  = -1: "}},
}

// The marks of each shell make the same commands, however they are cut.
func TestShells(t *testing.T) {
	for name, s := range shells {
		if got, _ := follow(s.text); !reflect.DeepEqual(got, s.want) {
			t.Errorf("%s: %q, want %q", name, got, s.want)
		}
		for i := range len(s.text) {
			if got, _ := follow(s.text, i, (i+len(s.text))/2); !reflect.DeepEqual(got, s.want) {
				t.Errorf("%s, cut at %d: %q, want %q", name, i, got, s.want)
			}
		}
	}
}

// A tracker goes on from its state in the middle of a command.
func TestResume(t *testing.T) {
	_, first := follow("\x1b]7;file:///a\x07\x1b]633;E;one\x07\x1b]633;C\x07")
	var second Tracker
	second.Resume(first.State())
	var got Command
	second.Write([]byte("\x1b]633;D;7\x07"), 100, noon.Add(-time.Hour), "", func(c Command) { got = c })
	if got.Number != 1 || got.Text != "one" || got.Dir != "/a" || got.By != "person" || got.To != 100 || *got.Exit != 7 || !got.Ended.Equal(noon) {
		t.Errorf("it is %+v", got)
	}
}

// What is too long is cut, and takes no more memory than that.
func TestBounds(t *testing.T) {
	var tr Tracker
	var got []Command
	take := func(c Command) { got = append(got, c) }
	tr.Write([]byte("\x1b]633;E;"), 0, noon, "", take)
	part := []byte(strings.Repeat("ü", 8<<10))
	for range 1000 {
		tr.Write(part, 0, noon, "", take)
	}
	tr.Write([]byte("\x07\x1b]633;C\x07"), 0, noon, "", take)
	if len(got) != 1 || len(got[0].Text) != MaxText || !got[0].Cut || cap(tr.parser.raw) > 2*maxMark {
		t.Errorf("%d commands, of %d bytes", len(got), len(got[0].Text))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	flood := []byte(strings.Repeat("\x1b]633;E;x\x07\x1b]633;C\x07\x1b]133;B\x07\x1b]633;D;0\x07", 1000))
	for range 100 {
		tr.Write(flood, 0, noon, "", func(Command) {})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if after.HeapAlloc > before.HeapAlloc+1<<20 {
		t.Errorf("a flood of marks holds %d bytes", after.HeapAlloc-before.HeapAlloc)
	}
}

// No bytes break a tracker, and what it says is in order.
func FuzzTracker(f *testing.F) {
	for _, s := range shells {
		f.Add([]byte(s.text), uint64(1))
	}
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) {
		pieces := rand.New(rand.NewPCG(seed, 0))
		tr := Tracker{Line: func(echo []byte) string { return string(echo) }}
		var last Command
		for at := 0; at < len(b); {
			n := min(1+pieces.IntN(20), len(b)-at)
			tr.Write(b[at:at+n], int64(at), noon, "", func(c Command) {
				if c.Number < last.Number || c.From > int64(len(b)) || !c.Ended.IsZero() && c.To < c.From || len(c.Text) > MaxText {
					t.Errorf("%+v after %+v", c, last)
				}
				last = c
			})
			at += n
		}
	})
}
