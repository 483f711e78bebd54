package compat

import (
	"fmt"
	"slices"
	"strings"
)

// rule bounds how a figure may grow over the rounds of one program: its median
// over the last rounds is at most factor times that of the first, and more.
type rule struct {
	what   string
	of     func(Cycle) float64
	factor float64
	more   float64
	show   string // how the table prints it
}

// rules are for what grows with every round. A time may double, since the machine may be slow at the
// end; the others are above what any recorded run needs.
var rules = []rule{
	{"the image", func(c Cycle) float64 { return float64(c.Captured) / 1e6 }, 1.25, 20, "%.0f→%.0f MB"},
	{"the time of a round", func(c Cycle) float64 { return (c.Durable + c.Resume).Seconds() }, 2, 2, "%.2f→%.2f s"},
	{"up's memory", func(c Cycle) float64 { return float64(c.Used.Up.Memory) / 1e6 }, 1.5, 60, "%.0f→%.0f MB"},
	{"the shim's memory", func(c Cycle) float64 { return float64(c.Used.Shim.Memory) / 1e6 }, 1.25, 3, "%.1f→%.1f MB"},
}

// compared is how many rounds are compared at each end; the first of all, which
// stores everything, isn't.
const compared = 3

// ends are the medians of a figure over the first and the last rounds.
func (r Row) ends(of func(Cycle) float64) (first, last float64, enough bool) {
	if len(r.Cycles) < 2*compared+1 {
		return 0, 0, false
	}
	return medianOf(r.Cycles[1:1+compared], of), medianOf(r.Cycles[len(r.Cycles)-compared:], of), true
}

func medianOf(cycles []Cycle, of func(Cycle) float64) float64 {
	var all []float64
	for _, c := range cycles {
		all = append(all, of(c))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// grew reports what grows with the rounds.
func (r Row) grew() error {
	var wrong []string
	for _, rule := range rules {
		if first, last, enough := r.ends(rule.of); enough && last > first*rule.factor+rule.more {
			wrong = append(wrong, fmt.Sprintf("%s grows: "+rule.show, rule.what, first, last))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%d rounds: %s", len(r.Cycles), strings.Join(wrong, ", "))
}

// growth has the figures for the table, each first→last.
func (r Row) growth() string {
	var cells []string
	for _, rule := range rules {
		text := "–"
		if first, last, enough := r.ends(rule.of); enough {
			text = fmt.Sprintf(rule.show, first, last)
		}
		cells = append(cells, text)
	}
	return strings.Join(cells, " | ")
}
