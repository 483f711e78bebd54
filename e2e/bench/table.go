package bench

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/diapause/diapause/e2e/compat/local"
)

const preface = `# Suspend and resume, by stage

Written by ` + "`make bench`" + `; don't edit. Times are seconds, the median of %d rounds.

- commit: %s
- machine: %s
- criu: %s
- at: %s; load average before the run: %s

The process holds memory of which half is text, a quarter numbers that resemble
pointers, a quarter random, no page like another. Beside it stands what people do
today with the same process in the same run: ` + "`criu dump`" + `, ` + "`tar | zstd -1 -T2 | age -r`" + `, a
copy that is synced to the disk; and all of it back. Nothing is dropped from the
page cache in between, for either.

"first": nothing of the session is in the store. "again": the second suspend, after
a sixteenth of the memory has changed. Frozen is how long the process doesn't run
before it could run on: until its image is durable with diapause, which loses
nothing if storing fails, until criu dump ends with the others, whose process is
gone then. Durable is when the image could be counted on. The total is what the
caller waits for, start of the command included. Every resumed process had the
memory it had before, by digest. Stages of diapause overlap; compress, encrypt and
store are summed over the cores.
`

// Table makes the document of a run; load is what the machine did besides.
func Table(ctx context.Context, all []Measurement, rounds int, load string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, preface, rounds, local.Commit(ctx), local.Machine(), local.CriuVersion(ctx), time.Now().UTC().Format(time.RFC3339), load)
	for _, op := range []string{"Suspend", "Resume"} {
		fmt.Fprintf(&b, "\n## %s\n", op)
		for _, who := range []string{"diapause", "today"} {
			writeTable(&b, median(all, op, who))
		}
	}
	writeRatios(&b, all)
	return b.Bytes()
}

const ratios = `
## A resume beside criu's restore

The total of a resume beside nothing but ` + "`criu restore`" + ` of the same memory, out of files that
are neither compressed nor encrypted.

| memory | image | diapause | criu restore | times |
| --: | --- | --: | --: | --: |
`

func writeRatios(b *bytes.Buffer, all []Measurement) {
	raw := map[int]time.Duration{}
	for _, m := range median(all, "Resume", "today") {
		raw[m.MB], _ = m.took("restore")
	}
	b.WriteString(ratios)
	for _, m := range median(all, "Resume", "diapause") {
		if r := raw[m.MB]; r > 0 {
			fmt.Fprintf(b, "| %d MB | %s | %.2f | %.2f | %.1f |\n", m.MB, m.What, m.Total.Seconds(), r.Seconds(), m.Total.Seconds()/r.Seconds())
		}
	}
}

// writeTable writes rows that have the same stages.
func writeTable(b *bytes.Buffer, rows []Measurement) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(b, "\n| memory | who | image | total |")
	for _, s := range rows[0].Stages {
		fmt.Fprintf(b, " %s |", s.Name)
	}
	if rows[0].Stored > 0 {
		fmt.Fprintf(b, " stored MB |")
	}
	fmt.Fprintf(b, "\n| --: | --- | --- | --: |")
	for range rows[0].Stages {
		fmt.Fprintf(b, " --: |")
	}
	if rows[0].Stored > 0 {
		fmt.Fprintf(b, " --: |")
	}
	fmt.Fprintln(b)
	for _, r := range rows {
		fmt.Fprintf(b, "| %d MB | %s | %s | %.2f |", r.MB, r.Who, r.What, r.Total.Seconds())
		for _, s := range r.Stages {
			fmt.Fprintf(b, " %.2f |", s.Took.Seconds())
		}
		if r.Stored > 0 {
			fmt.Fprintf(b, " %.1f |", float64(r.Stored)/1e6)
		}
		fmt.Fprintln(b)
	}
}

// median joins the rounds of each benchmark, in the order in which they first
// ran.
func median(all []Measurement, op, who string) []Measurement {
	var order []string
	rounds := map[string][]Measurement{}
	for _, m := range all {
		if m.Op != op || m.Who != who {
			continue
		}
		if rounds[m.name()] == nil {
			order = append(order, m.name())
		}
		rounds[m.name()] = append(rounds[m.name()], m)
	}
	var out []Measurement
	for _, name := range order {
		out = append(out, middle(rounds[name]))
	}
	return out
}

// middle takes the median of each figure.
func middle(rounds []Measurement) Measurement {
	m := rounds[0]
	m.Total = pick(rounds, func(r Measurement) time.Duration { return r.Total })
	m.Stored = pick(rounds, func(r Measurement) int64 { return r.Stored })
	m.Stages = slices.Clone(m.Stages)
	for i, s := range m.Stages {
		m.Stages[i].Took = pick(rounds, func(r Measurement) time.Duration { took, _ := r.took(s.Name); return took })
	}
	return m
}

func pick[T time.Duration | int64](rounds []Measurement, of func(Measurement) T) T {
	var all []T
	for _, r := range rounds {
		all = append(all, of(r))
	}
	slices.Sort(all)
	return all[len(all)/2]
}
