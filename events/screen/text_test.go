package screen

import (
	"strings"
	"testing"
)

// Text is what was printed, without what terminals obey, in any pieces.
func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"one\r\ntwo\r\n": "one\ntwo\n",
		"\x1b[1;31mred\x1b[0m \x1b]0;title\x07text":     "red text",
		"10%\r20%\r100%\r\n":                            "100%\n",
		"longer\rs\x1b[K\n":                             "s\n",
		"ab\b\bcd":                                      "cd",
		"before\r\n\x1b[?1049hvim\r\n~\x1b[?1049lafter": "before\nafter",
		"\x1b[?47hlost\x1bcback":                        "back",
		"\xff\xc3ü\x00\x07日\tx":                         "ü日\tx",
		"\x1b[38;5;1":                                   "",
	} {
		for cut := range len(in) {
			var x Text
			var all []byte
			all = append(all, x.Write([]byte(in[:cut]))...)
			all = append(all, x.Write([]byte(in[cut:]))...)
			all = append(all, x.End()...)
			if got := string(all); got != want {
				t.Errorf("%q, cut at %d, is %q, want %q", in, cut, got, want)
			}
		}
	}
	var blanks Text
	for range 1000 {
		blanks.Write([]byte(strings.Repeat(" ", 1000)))
	}
	if cap(blanks.line) > 4*maxLine {
		t.Errorf("of a line of blanks %d characters are kept", cap(blanks.line))
	}
	var x Text
	var n int
	for range 1000 {
		n += len(x.Write([]byte(strings.Repeat("x", 1000))))
	}
	if n += len(x.End()); n != 1000000 || cap(x.line) > 4*maxLine {
		t.Errorf("a long line has %d characters, and %d are kept", n, cap(x.line))
	}
}
