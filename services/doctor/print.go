package doctor

import (
	"fmt"
	"io"
	"strings"
)

// TextWriter returns a function that writes findings as lines of a table for a
// person. The checks are asked for their names alone.
func TextWriter(w io.Writer, checks []Check) func(Finding) {
	width := 0
	for _, c := range checks {
		width = max(width, len(c.Name))
	}
	indent := strings.Repeat(" ", len("skipped")+2+width+2)
	return func(f Finding) {
		detail := strings.ReplaceAll(f.Detail, "\n", "\n"+indent)
		// A table that can't be written is of no use to anybody.
		_, _ = fmt.Fprintf(w, "%-7s  %-*s  %s\n", f.Status, width, f.Name, detail)
		if f.Fix != "" {
			_, _ = fmt.Fprintf(w, "%s→ %s\n", indent, f.Fix)
		}
	}
}

// Summary says in one line how a report ended.
func (r Report) Summary() string {
	count := map[Status]int{}
	for _, f := range r.Checks {
		count[f.Status]++
	}
	words := []string{fmt.Sprintf("%d ok", count[OK])}
	for _, s := range []struct {
		status Status
		word   string
	}{{Warn, "with a warning"}, {Fail, "failed"}, {Skipped, "skipped"}} {
		if n := count[s.status]; n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, s.word))
		}
	}
	verdict := "Diapause can run here"
	switch {
	case count[Fail] > 0:
		verdict = "Diapause can't run here as it is"
	case !r.OK:
		verdict = "Interrupted, so whether Diapause can run here isn't known"
	}
	return fmt.Sprintf("%s (%d checks: %s)", verdict, len(r.Checks), strings.Join(words, ", "))
}
