package export

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func linesOf(words string) (lines []string) {
	for _, w := range strings.Fields(words) {
		lines = append(lines, w+"\n")
	}
	return lines
}

func TestUnified(t *testing.T) {
	for _, c := range []struct{ x, y, want string }{
		{"", "", ""},
		{"a b", "a b", ""},
		{"", "a b", "@@ -0,0 +1,2 @@\n+a\n+b\n"},
		{"a", "", "@@ -1 +0,0 @@\n-a\n"},
		{"a b c", "a x c", "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n"},
		{"1 2 3 4 5 6 7 8 9", "1 2 3 4 x 6 7 8 9", "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n"},
		{"a 1 2 3 4 5 6 7 b", "x 1 2 3 4 5 6 7 y", "@@ -1,4 +1,4 @@\n-a\n+x\n 1\n 2\n 3\n@@ -6,4 +6,4 @@\n 5\n 6\n 7\n-b\n+y\n"},
		{"a 1 2 3 4 5 6 b", "x 1 2 3 4 5 6 y", "@@ -1,8 +1,8 @@\n-a\n+x\n 1\n 2\n 3\n 4\n 5\n 6\n-b\n+y\n"},
		{"y y y", "y y y y", "@@ -1,3 +1,4 @@\n y\n y\n y\n+y\n"},
	} {
		want := c.want
		if want != "" {
			want = "--- a\n+++ b\n" + want
		}
		var out strings.Builder
		Unified(&out, [2]string{"a", "b"}, linesOf(c.x), linesOf(c.y))
		if out.String() != want {
			t.Errorf("%q and %q differ in\n%s, want\n%s", c.x, c.y, out.String(), want)
		}
	}
}

// patched applies what unified wrote.
func patched(t *testing.T, x []string, diff string) (y []string) {
	t.Helper()
	at := 0
	for l := range strings.Lines(diff) {
		var from, n int
		switch {
		case strings.HasPrefix(l, "--- "), strings.HasPrefix(l, "+++ "):
		case strings.HasPrefix(l, "@@"):
			if k, _ := fmt.Sscanf(l, "@@ -%d,%d", &from, &n); k == 1 {
				n = 1
			}
			if n > 0 {
				from--
			}
			if from < at {
				t.Fatalf("a part begins at line %d, before %d:\n%s", from, at, diff)
			}
			y, at = append(y, x[at:from]...), from
		case l[0] == '+':
			y = append(y, l[1:])
		case x[at] != l[1:]:
			t.Fatalf("line %d is %q, not %q", at, x[at], l[1:])
		default:
			at++
			if l[0] == ' ' {
				y = append(y, l[1:])
			}
		}
	}
	return append(y, x[at:]...)
}

// What is written makes one text of the other.
func TestUnifiedPatches(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var texts [2][]string
		for i := range texts {
			for range random.IntN(20) {
				texts[i] = append(texts[i], fmt.Sprintln(random.IntN(12)))
			}
		}
		var out strings.Builder
		Unified(&out, [2]string{"a", "b"}, texts[0], texts[1])
		if got := patched(t, texts[0], out.String()); !slices.Equal(got, texts[1]) {
			t.Fatalf("%q and %q: it makes %q of the first:\n%s", texts[0], texts[1], got, out.String())
		}
		if slices.Equal(texts[0], texts[1]) != (out.Len() == 0) {
			t.Fatalf("%q and %q: it has %d bytes", texts[0], texts[1], out.Len())
		}
	}
}

// What is compared has bounds.
func TestBounded(t *testing.T) {
	for _, c := range []struct {
		texts []string
		fits  bool
	}{
		{[]string{"one\n", "two\n", "three"}, true},
		{[]string{"\n", "\n", "\n"}, false},
		{[]string{"\n\n\n"}, false},
		{[]string{"0123456789", "0123456789"}, true},
		{[]string{"0123456789", "0123456789", "0"}, false},
	} {
		b := Bounded{Most: 20, Newlines: 2}
		var err error
		for _, text := range c.texts {
			if _, err = b.WriteString(text); err != nil {
				break
			}
		}
		if fits := err == nil; fits != c.fits || err != nil && !errors.Is(err, ErrTooMuch) {
			t.Errorf("%q: %v", c.texts, err)
		}
	}
}
