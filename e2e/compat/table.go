package compat

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/diapause/diapause/e2e/compat/local"
)

const preface = `# Real programs, suspended and resumed

Written by ` + "`make compat`" + `; don't edit. Every program was suspended to an encrypted
image, its processes ended, and resumed, %d times in a row; after each resume the
state in the second table was compared with what it was, and changed.

- commit: %s
- machine: %s
- criu: %s
- at: %s; load average before the run: %s

| program | version | captured MB | stored MB, first | stored MB, later | frozen s | durable s | resume s | of %d | limits found |
| --- | --- | --: | --: | --: | --: | --: | --: | --: | --- |
`

const notes = `
Captured is the content of the image: memory, the session's own files, and the
files of the system that it has open or mapped. Stored is what that took in the
store, compressed and encrypted; later suspends store only pages that are new.
Frozen is how long the program stood still until its image was durable; durable,
from the decision until the record points at the image; both are medians of
the rounds. Resume is the median time that %s took for its caller,
the start of the command included.

| program | state that was compared after each resume |
| --- | --- |
`

const grows = `
Nothing may grow with the rounds. A figure is the median of the second to fourth round
and of the last three; memory is what the process itself holds, a round's time is
durable and resume together. "up" serves all programs of the run, one after the other.

| program | image | a round's time | up's memory | the shim's memory |
| --- | --: | --: | --: | --: |
`

// Write makes the document of a run; load is what the machine did besides.
func Write(ctx context.Context, rows []Row, rounds int, load string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, preface, rounds, local.Commit(ctx), local.Machine(), local.CriuVersion(ctx),
		time.Now().UTC().Format(time.RFC3339), load, rounds)
	for _, r := range rows {
		b.WriteString(r.line())
	}
	fmt.Fprintf(&b, notes, "`diapause ensure`")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s |\n", r.Program.Name, r.Program.State)
	}
	b.WriteString(grows)
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s |\n", r.Program.Name, r.growth())
	}
	return b.Bytes()
}

// limits is what a row says of what went wrong, or is known not to work.
func (r Row) limits() string {
	limits := r.Program.Limits
	if r.Err != nil {
		limits = strings.TrimSpace(r.Err.Error() + " " + limits)
	}
	if limits == "" {
		limits = "none"
	}
	return cell(limits)
}

func (r Row) line() string {
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s | %s | %d | %s |\n", r.Program.Name, r.Version,
		r.megabytes(0, func(c Cycle) int64 { return c.Captured }), r.megabytes(0, func(c Cycle) int64 { return c.Stored }),
		r.megabytes(len(r.Cycles)-1, func(c Cycle) int64 { return c.Stored }),
		r.seconds(func(c Cycle) time.Duration { return c.Frozen }), r.seconds(func(c Cycle) time.Duration { return c.Durable }),
		r.seconds(func(c Cycle) time.Duration { return c.Resume }), len(r.Cycles), r.limits())
}

// cell makes text fit into a table.
func cell(s string) string {
	return strings.NewReplacer("\n", " ", "|", `\|`).Replace(s)
}

// megabytes is a size of one cycle, a dash if that isn't there.
func (r Row) megabytes(cycle int, of func(Cycle) int64) string {
	if cycle < 0 || cycle >= len(r.Cycles) {
		return "–"
	}
	return fmt.Sprintf("%.1f", float64(of(r.Cycles[cycle]))/1e6)
}

// seconds is the median of a time over the cycles.
func (r Row) seconds(of func(Cycle) time.Duration) string {
	if len(r.Cycles) == 0 {
		return "–"
	}
	var all []time.Duration
	for _, c := range r.Cycles {
		all = append(all, of(c))
	}
	slices.Sort(all)
	return fmt.Sprintf("%.2f", all[len(all)/2].Seconds())
}
