package export

import (
	"fmt"
	"io"
	"slices"
	"sort"
)

// around is how many lines are shown before and after those that differ.
const around = 3

// pair are positions in two texts, in lines.
type pair struct{ x, y int }

// Unified writes in what two texts differ, in the form of "diff -u"; nothing if they are the same. It finds what is the same around
// lines that each text has once, which takes little time however long they are.
func Unified(w io.Writer, names [2]string, x, y []string) {
	h := hunk{w: w, names: names, x: x, y: y}
	var done pair // both are written, or in h, up to there
	for _, m := range append(anchors(x, y), pair{len(x), len(y)}) {
		if m.x < done.x {
			continue // within lines that were found to be the same
		}
		start, end := m, m
		for start.x > done.x && start.y > done.y && x[start.x-1] == y[start.y-1] {
			start.x, start.y = start.x-1, start.y-1
		}
		for end.x < len(x) && end.y < len(y) && x[end.x] == y[end.y] {
			end.x, end.y = end.x+1, end.y+1
		}
		h.differ(done, start)
		h.same(start, end)
		done = end
	}
	h.flush()
}

// hunk gathers lines that differ, and those around them.
type hunk struct {
	w     io.Writer
	names [2]string
	x, y  []string

	titled bool
	lines  []string
	at     pair // where it begins
	n      pair // how many lines it has of each
	equal  int  // how many lines at its end are the same
}

func (h *hunk) differ(from, to pair) {
	for _, l := range h.x[from.x:to.x] {
		h.lines = append(h.lines, "-"+l)
		h.n.x, h.equal = h.n.x+1, 0
	}
	for _, l := range h.y[from.y:to.y] {
		h.lines = append(h.lines, "+"+l)
		h.n.y, h.equal = h.n.y+1, 0
	}
}

// same takes lines that are the same. Many of them end the hunk, and the last begin the next one.
func (h *hunk) same(from, to pair) {
	size := to.x - from.x
	if size == 0 {
		return
	}
	if len(h.lines) > h.equal && size <= 2*around && to != (pair{len(h.x), len(h.y)}) {
		h.add(h.x[from.x:to.x])
		return
	}
	if len(h.lines) > h.equal {
		h.add(h.x[from.x : from.x+min(size, around)])
	}
	h.flush()
	before := min(size, around)
	h.at = pair{to.x - before, to.y - before}
	h.add(h.x[to.x-before : to.x])
}

func (h *hunk) add(lines []string) {
	for _, l := range lines {
		h.lines = append(h.lines, " "+l)
	}
	h.n.x, h.n.y, h.equal = h.n.x+len(lines), h.n.y+len(lines), h.equal+len(lines)
}

// flush writes the hunk, if anything in it differs.
func (h *hunk) flush() {
	if len(h.lines) > h.equal {
		if !h.titled {
			h.titled = true
			fmt.Fprintf(h.w, "--- %s\n+++ %s\n", h.names[0], h.names[1])
		}
		fmt.Fprintf(h.w, "@@ -%s +%s @@\n", lineRange(h.at.x, h.n.x), lineRange(h.at.y, h.n.y))
		for _, l := range h.lines {
			_, _ = io.WriteString(h.w, l)
		}
	}
	h.lines, h.n, h.equal = nil, pair{}, 0
}

// lineRange writes lines as "diff -u" does: of none the line before.
func lineRange(at, n int) string {
	switch n {
	case 0:
		return fmt.Sprintf("%d,0", at)
	case 1:
		return fmt.Sprint(at + 1)
	}
	return fmt.Sprintf("%d,%d", at+1, n)
}

// anchors gives the longest list of lines that both texts have once and in the same order, and the beginning of both.
func anchors(x, y []string) []pair {
	type seen struct{ inX, inY, atX, atY int }
	all := map[string]*seen{}
	of := func(l string) *seen {
		if all[l] == nil {
			all[l] = &seen{}
		}
		return all[l]
	}
	for i, l := range x {
		s := of(l)
		s.inX, s.atX = s.inX+1, i
	}
	for i, l := range y {
		s := of(l)
		s.inY, s.atY = s.inY+1, i
	}
	var once []pair // in the order of x
	for i, l := range x {
		if s := all[l]; s.inX == 1 && s.inY == 1 {
			once = append(once, pair{i, s.atY})
		}
	}
	return append([]pair{{}}, rising(once)...)
}

// rising gives the longest part of pairs that rises in y, too: by patience sorting.
func rising(all []pair) []pair {
	var ends []int // index of the last pair of the best list of each length
	before := make([]int, len(all))
	for i, p := range all {
		n := sort.Search(len(ends), func(n int) bool { return all[ends[n]].y >= p.y })
		before[i] = -1
		if n > 0 {
			before[i] = ends[n-1]
		}
		if n == len(ends) {
			ends = append(ends, i)
		} else {
			ends[n] = i
		}
	}
	if len(ends) == 0 {
		return nil
	}
	var out []pair
	for i := ends[len(ends)-1]; i >= 0; i = before[i] {
		out = append(out, all[i])
	}
	slices.Reverse(out)
	return out
}
