package screen

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorded are programs as they printed to a terminal of 24 rows and 80 columns, and what that showed at the end.
var recorded = []struct {
	program   string
	alternate bool
	shows     []string // each in a row of its own, from the top down
}{
	{"vim", true, []string{
		"\n012:    the quick brown fox — 漢字 é jum|007:    the quick brown fox — 漢字 é ju\nps over line 12                         |mps over line 7\n",
		"\npoem.txt [+]                             poem.txt [+]\n/fox",
	}},
	{"less", true, []string{"177:    the quick brown fox — 漢字 é jumps over line 177\n178:", "\n199:    the quick brown fox — 漢字 é jumps over line 199\n(END)"}},
	{"top", false, []string{"top - ", "\nTasks:   1 total,   0 running,   1 sleeping", "\n%Cpu0  :", "\n%Cpu1  :", "\n  PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND\n", " sleep"}},
	{"tmux", true, []string{"│# echo hi\n", "│hi\n", "├───────────────────────────────────────\n", "│# echo │ done\n", "││ done\n", "\n$                                       │\n[0] 0:sh*"}},
}

// TestPrograms: what real programs print shows as it should, in one piece or many, and painted again at any
// moment.
func TestPrograms(t *testing.T) {
	for _, r := range recorded {
		all, err := os.ReadFile(filepath.Join("testdata", r.program+".bytes"))
		if err != nil {
			t.Fatal(err)
		}
		whole, followed := New(24, 80), New(24, 80)
		whole.Write(all)
		for at := 0; at < len(all); at += 997 {
			s := New(24, 80)
			s.Write(all[:at])
			other := repainted(s)
			same(t, r.program, s, other)
			other.Write(all[s.Offset():])
			other.last, whole.last = 0, 0
			same(t, r.program+" gone on", whole, other)
		}
		f := NewFilter(0, 0)
		followed.Write(f.Write(all))
		same(t, r.program+" filtered", whole, followed)
		if whole.Alternate() != r.alternate {
			t.Errorf("%s: alternate screen %v", r.program, whole.Alternate())
		}
		rest := show(whole)
		for _, row := range r.shows {
			_, after, ok := strings.Cut(rest, row)
			if !ok {
				t.Errorf("%s: no row %q in\n%s", r.program, row, show(whole))
			}
			rest = after
		}
	}
}
