package screen

import (
	"fmt"
	"strings"
	"testing"
)

// sequences are what programs that test terminals try, each after the screen was filled with letters. Two aren't among
// them: 38:2:1:2:3 is red, green and blue here and in xterm, but xterm.js takes the 1 for a colour space; and 38;5 alone
// is no colour here, but black there.
var sequences = []struct {
	name   string
	pieces []string
}{
	{"region", []string{"\x1b[3;6r", "\x1b[6;1H\n\n", "\x1b[3;1H\x1bM", "\x1b[1;1H\x1bM", "\x1b[8;1H\nx", "\x1b[5;4r\x1b[1;99r", "\x1b[r"}},
	{"region and cursor", []string{"\x1b[3;6r\x1b[5;5H", "\x1b[9A", "\x1b[9B", "\x1b[1;5H\x1b[9B", "\x1b[8;5H\x1b[9A", "\x1b[4;5H\x1b[9E", "\x1b[9F"}},
	{"origin", []string{"\x1b[3;6r\x1b[?6h", "x", "\x1b[9;9Hy", "\x1b[2d", "\x1b[5G\x1b[6n", "\x1b[2A\x1b[3B\x1b[2Cz", "\x1b7\x1b[?6l\x1b8x", "\x1b[?6l\x1b[H"}},
	{"wrap", []string{"\x1b[2;18Habc", "d", "\x1b[?7l\x1b[4;18Habcdef", "\x1b[?7h\x1b[6;20Hab", "\x1b[8;20Hab", "\x1b[3;20Ha\x1b[Db", "\x1b[3;20Ha\tb", "\x1b[3;20Ha\x1b[Cb", "\x1b[3;20Ha\x08b", "\x1b[3;20Ha\x1b[31mb"}},
	{"wrapping erased", []string{"\x1b[2;20Ha\x1b[K", "b", "\x1b[2;20Ha\x1b[1Kb", "\x1b[2;20Ha\x1b[Xb", "\x1b[2;20Ha\x1b[Pb", "\x1b[2;20Ha\x1b[@b", "\x1b[2;20Ha\x1b[Jb", "\x1b[2;20Ha\x1b[Lb", "\x1b[2;20Ha\x1b[Mb"}},
	{"tabs", []string{"\x1b[H\tx", "\x1b[3g\x1b[H\tx", "\x1b[5G\x1bH\x1b[12G\x1bH\r\t\tx", "\x1b[5G\x1b[g\r\tx", "\x1b[20G\x1b[Zx", "\x1b[9Z\x1b[Ix", "\x1b[9Ix"}},
	{"repeat", []string{"\x1b[Ha\x1b[5b", "漢\x1b[3b", "e\u0301\x1b[2b", "\x1b[8;15Hx\x1b[30b", "\x1b[H\x1b[3b", "y\x1b[31m\x1b[3b", "z\n\x1b[3b", "w\x1b[b\x1b[0b", "\x1b[?7lq\x1b[50b"}},
	{"characters", []string{"\x1b[2;5H\x1b[3@", "\x1b[3;5H\x1b[3P", "\x1b[4;5H\x1b[3X", "\x1b[5;5H\x1b[99@", "\x1b[6;5H\x1b[99P", "\x1b[7;5H\x1b[99X", "\x1b[44m\x1b[2;5H\x1b[2@\x1b[3;5H\x1b[2P\x1b[4;5H\x1b[2X"}},
	{"wide characters cut", []string{"\x1b[2;1H漢字漢字漢字漢字漢字", "\x1b[2;2Hx", "\x1b[2;5H\x1b[P", "\x1b[2;6H\x1b[@", "\x1b[2;10H\x1b[X", "\x1b[2;14H\x1b[K", "\x1b[3;20H漢", "\x1b[2;4H\x1b[1K", "\x1b[?7l\x1b[5;20H漢x"}},
	{"lines", []string{"\x1b[3;6r\x1b[4;5H\x1b[L", "\x1b[4;5H\x1b[M", "\x1b[99L", "\x1b[3;1H\x1b[99M", "\x1b[2;5H\x1b[L", "\x1b[8;5H\x1b[M", "\x1b[r\x1b[41m\x1b[2;5H\x1b[2L", "\x1b[2M"}},
	{"scrolling", []string{"\x1b[S", "\x1b[2T", "\x1b[3;6r\x1b[S", "\x1b[T", "\x1b[42m\x1b[2S", "\x1b[2T", "\x1b[99S", "\x1b[r\x1b[99T"}},
	{"erasing", []string{"\x1b[4;10H\x1b[K", "\x1b[5;10H\x1b[1K", "\x1b[6;10H\x1b[2K", "\x1b[7;10H\x1b[J", "\x1b[2;10H\x1b[1J", "\x1b[45m\x1b[3;10H\x1b[K", "\x1b[2J", "\x1b[3J", "x\x1b[?K\x1b[?2J"}},
	{"inserting", []string{"\x1b[4h\x1b[2;5Hxyz", "\x1b[3;18Hlmno", "漢", "\x1b[4;3H漢\x1b[4l字", "\x1b[20hx\nyz", "\x1b[20l\nx"}},
	{"sets", []string{"\x1b(0lqk\x1b(B", "\x1b)0\x0exmj\x0f", "\x1b(A#", "\x1b(B\x1b*0\x1bnqqq\x0f", "\x1b+0\x1boqqq\x0f", "\x1b7\x1b(0q\x1b8q", "\x1b(0`abcdefghijklmnopqrstuvwxyz{|}~\x1b(B"}},
	{"saving", []string{"\x1b[3;5H\x1b[1;31m\x1b7\x1b[m\x1b[H", "\x1b8x", "\x1b[s\x1b[H\x1b[uy", "\x1b[4:3;58:5:9m\x1b7\x1b[m\x1b8z", "\x1b[8;20Ha\x1b7\x1b[H\x1b8b", "\x1b[?1048h\x1b[H\x1b[?1048lc"}},
	{"soft reset", []string{"\x1b[3;6r\x1b[?6h\x1b[4h\x1b[?7l\x1b[?25l\x1b[?1h\x1b=\x1b[1;31m\x1b(0", "\x1b[!p", "q\x1b[H", "\x1b8x"}},
	{"hard reset", []string{"\x1b[3;6r\x1b[?6h\x1b[4h\x1b[?7l\x1b[?25l\x1b[?1h\x1b[?1049h\x1b[3g\x1b]2;kept\a", "\x1bcx\ty", "\x1b8z"}},
	{"alternate", []string{"\x1b[3;5H\x1b[?1049h", "alt\x1b[?1049l", "\x1b[?47hold", "\x1b[?47l", "\x1b[?1047hx\x1b[?1049h", "\x1b[?1047ly", "\x1b[44m\x1b[?1049h", "\x1b[?1049l\x1b[?1049l"}},
	{"colours", []string{
		"\x1b[1;2;3;4;5;7;8;9;53mx", "\x1b[22;23;24;25;27;28;29;55my", "\x1b[4:0;4:1ma\x1b[4:2mb\x1b[4:3mc\x1b[4:4md\x1b[4:5me\x1b[21mf\x1b[24mg",
		"\x1b[38;5;196;48;5;21mx\x1b[39;49my", "\x1b[38;2;1;2;3;48:2::4:5:6mz", "\x1b[38:5:7ma\x1b[38:2:0:1:2:3mb", "\x1b[58;5;9;4mc\x1b[59md", "\x1b[90;107me", "\x1b[;;1mg", "\x1b[mh",
	}},
	{"alignment", []string{"\x1b[1;31m\x1b[3;6r\x1b#8", "x", "\x1b[9A\x1b[9Dy"}},
	{"indexing", []string{"\x1b[4;5H\x1bDx", "\x1bEy", "\x1bMz", "\x1b[8;1H\x1bD", "\x1bE", "\x1b[1;1H\x1bM", "\u0084a\u0085b\u008dc", "\v\fd"}},
	{"positions", []string{"\x1b[0;0Ha", "\x1b[;5Hb", "\x1b[99;99Hc", "\x1b[3fd", "\x1b[5de\x1b[2ef", "\x1b[7`g\x1b[2ah", "\x1b[99Di", "\x1b[99Cj", "\x1b[0Ak\x1b[0Bl"}},
	{"broken", []string{"\x1b[3\x18x", "\x1b[3\x1b[4my", "\x1b[3;\n5Hz", "\x1b]2;a\x18b", "\x1b]2;new\x1b[31mc", "\x1bP1;2zdata\x1b\\d", "\x1b^pm\x1b\\\x1b_apc\x1b\\\x1bXsos\x1b\\e", "\x1b[<1;2;3mf", "\x1b[99999999999Cg", "\x1b\x1b[1mh"}},
	{"asking", []string{"\x1b[5n", "\x1b[3;6r\x1b[?6h\x1b[2;3H\x1b[6n\x1b[?6n", "\x1b[c\x1b[>c", "\x1b[?7$p\x1b[?6$p\x1b[?25$p\x1b[?1049$p\x1b[4$p\x1b[20$p", "\x1b[18t"}},
	{"titles", []string{"\x1b]0;one\a", "\x1b[22t\x1b]2;two\x1b\\", "\x1b[22;1t\x1b]1;icon\a\x1b[23;1t", "\x1b[23t", "\x1b]2;漢字 é\a"}},
	{"mouse", []string{"\x1b[?9h", "\x1b[?1000h\x1b[?1006h", "\x1b[?1002h", "\x1b[?1003h\x1b[?1016h", "\x1b[?1003l\x1b[?1016l", "\x1b[?2004h\x1b[?1h\x1b=", "\x1b[?2004;1l\x1b>"}},
	{"links", []string{"\x1b]8;;http://a/\x1b\\link", "\x1b[31mred\x1b[mplain\x1b]8;;\a end", "\x1b]8;id=x;http://b/;c\abc\x1b]8;;\a", "\x1b]8;;http://a/\a\x1b[2J\x1b[!px"}},
	{"marks", []string{"\x1b[2;2He\u0301", "\x1b[2;2H\u0301", "漢\u0301", "\x1b[2;20Ha\u0301b", "\x1b[1;1H\u0301x", "\x1b[?7l\x1b[3;20Ha\u0301", "👨\u200d👩", "ก็ำ"}},
}

// TestXtermSequences: what sequences do, one by one, is what xterm.js does; and what has been painted before one goes on
// as well.
func TestXtermSequences(t *testing.T) {
	t.Parallel()
	x, painted := newXterm(t), newXterm(t)
	for _, s := range sequences {
		t.Run(s.name, func(t *testing.T) {
			x.t, painted.t = t, t
			p := newPair(t, x, painted, 8, 20)
			for row := range 8 {
				p.write(fmt.Appendf(nil, "\x1b[%dH%s", row+1, strings.Repeat(string(rune('a'+row)), 20)), true)
			}
			p.write([]byte("\x1b[H"), false)
			for _, piece := range s.pieces {
				p.paint()
				p.write([]byte(piece), false)
			}
			p.paint()
		})
	}
}
