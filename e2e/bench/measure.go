package bench

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Measurement is one suspend or one resume.
type Measurement struct {
	Op     string // Suspend, Resume
	MB     int    // of the process's memory
	Who    string // diapause, today
	What   string // first, again: nothing or most of it is in the store already
	Total  time.Duration
	Stages []Stage // in their order; some overlap
	Stored int64   // bytes, of a suspend
}

// Stage is a part of a measurement.
type Stage struct {
	Name string
	Took time.Duration
}

// took is a stage's time.
func (m Measurement) took(name string) (time.Duration, bool) {
	for _, s := range m.Stages {
		if s.Name == name {
			return s.Took, true
		}
	}
	return 0, false
}

// name of the benchmark, as benchstat wants it.
func (m Measurement) name() string {
	return fmt.Sprintf("Benchmark%s/size=%dMB/who=%s/image=%s", m.Op, m.MB, m.Who, m.What)
}

// Line writes a measurement as a line that benchstat reads.
func (m Measurement) Line(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s \t1\t%d ns/op", m.name(), m.Total.Nanoseconds())
	for _, s := range m.Stages {
		fmt.Fprintf(&b, "\t%d %s-ns/op", s.Took.Nanoseconds(), strings.ReplaceAll(s.Name, " ", "-"))
	}
	if m.Stored > 0 {
		fmt.Fprintf(&b, "\t%d stored-B/op", m.Stored)
	}
	_, err := fmt.Fprintln(w, b.String())
	return err
}
