package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/diapause/diapause/e2e/compat/local"
)

const comparedPreface = `# What storing costs, beside tar and restic

Written by ` + "`make bench`" + `; don't edit. The median of %d rounds; every round is in
comparison.txt beside this.

- commit: %s
- machine: %s
- criu: %s
- at: %s; load average before the run: %s

All store to the same MinIO on this machine. A process holds memory of which half is text, a
quarter numbers that resemble pointers, a quarter random: it stands in for real programs, no
browser was measured. What changes is spread evenly over it, single pages far apart, which
is hard on tools whose chunks are larger.
The ways are ` + "`diapause suspend`" + `; ` + "`criu dump`, then `tar | zstd -1 -T2 | age -r`" + ` into one
object, stored as it comes; and ` + "`criu dump`, then `restic backup`" + ` of the images.

Durable is from the freeze until the last object is stored, CRIU included. CPU is what the
whole machine did meanwhile, the server left out. Peak is by how much the machine's
available memory fell, the server included. Of a change, "zstd" is what ` + "`zstd -1`" + ` makes of the
changed pages.
`

// Line writes a cost as a line that benchstat reads.
func (c Cost) Line(w io.Writer) error {
	_, err := fmt.Fprintf(w, "BenchmarkStore/size=%dMB/who=%s/state=%s \t1\t%d ns/op\t%d dump-ns/op\t%d durable-ns/op\t%d cpu-ns/op\t%d peak-B/op\t%d stored-B/op\t%d changed-B/op\t%d alone-ns/op\n",
		c.MB, c.Who, c.What, c.Took.Nanoseconds(), c.Dump.Nanoseconds(), c.Durable.Nanoseconds(), c.CPU.Nanoseconds(), c.Peak, c.Stored, c.Changed, c.Alone.Nanoseconds())
	return err
}

// Compared makes the document of a run of Compare.
func Compared(ctx context.Context, all []Cost, rounds int, load string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, comparedPreface, rounds, local.Commit(ctx), local.Machine(), local.CriuVersion(ctx), time.Now().UTC().Format(time.RFC3339), load)
	fmt.Fprint(&b, "\n| memory | state | who | dump | durable | CPU | peak MB | stored MB | zstd MB |\n| --: | --- | --- | --: | --: | --: | --: | --: | --: |\n")
	rows := medians(all)
	for _, c := range rows {
		fmt.Fprintf(&b, "| %d MB | %s | %s | %.2f | %.2f | %.2f | %.0f | %.2f | %s |\n", c.MB, c.What, c.Who,
			c.Dump.Seconds(), c.Durable.Seconds(), c.CPU.Seconds(), float64(c.Peak)/1e6, float64(c.Stored)/1e6, megabytes(c.Changed))
	}
	fmt.Fprint(&b, "\n## The aims\n\n| memory | state | what | is | aim |\n| --: | --- | --- | --: | --: |\n")
	for _, a := range aims(rows) {
		fmt.Fprintf(&b, "| %d MB | %s | %s | %.2f | %s |\n", a.mb, a.state, a.what, a.is, a.aim)
	}
	return b.Bytes()
}

func megabytes(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", float64(n)/1e6)
}

// medians joins the rounds, in the order in which they first ran.
func medians(all []Cost) (rows []Cost) {
	type key struct {
		mb        int
		what, who string
	}
	rounds := map[key][]Cost{}
	var order []key
	for _, c := range all {
		k := key{c.MB, c.What, c.Who}
		if rounds[k] == nil {
			order = append(order, k)
		}
		rounds[k] = append(rounds[k], c)
	}
	for _, k := range order {
		r := rounds[k]
		c := r[0]
		for _, d := range []func(*Cost) *time.Duration{
			func(c *Cost) *time.Duration { return &c.Took }, func(c *Cost) *time.Duration { return &c.Dump },
			func(c *Cost) *time.Duration { return &c.Durable }, func(c *Cost) *time.Duration { return &c.CPU },
			func(c *Cost) *time.Duration { return &c.Alone },
		} {
			*d(&c) = medianOf(r, d)
		}
		for _, n := range []func(*Cost) *int64{
			func(c *Cost) *int64 { return &c.Peak }, func(c *Cost) *int64 { return &c.Stored }, func(c *Cost) *int64 { return &c.Changed },
		} {
			*n(&c) = medianOf(r, n)
		}
		rows = append(rows, c)
	}
	return rows
}

func medianOf[T time.Duration | int64](rounds []Cost, of func(*Cost) *T) T {
	var all []T
	for i := range rounds {
		all = append(all, *of(&rounds[i]))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// aim is a ratio and what it should be.
type aim struct {
	mb          int
	state, what string
	is          float64
	aim         string
}

func aims(rows []Cost) (out []aim) {
	find := func(mb int, what, who string) Cost {
		i := slices.IndexFunc(rows, func(c Cost) bool { return c.MB == mb && c.What == what && c.Who == who })
		if i < 0 {
			return Cost{}
		}
		return rows[i]
	}
	for _, c := range rows {
		if c.Who != "diapause" {
			continue
		}
		tar, first := find(c.MB, c.What, "tar"), find(c.MB, "first", "diapause")
		add := func(what string, is float64, should string) {
			out = append(out, aim{c.MB, c.What, what, is, should})
		}
		if c.What == "first" {
			add("tar's time to durable / diapause's", tar.Durable.Seconds()/c.Durable.Seconds(), "≥ 1.5")
			add("time beyond the dump / zstd and age alone", (c.Durable-c.Dump).Seconds()/tar.Alone.Seconds(), "≤ 1.25")
			continue
		}
		add("stored / zstd of what has changed", float64(c.Stored)/float64(max(c.Changed, 1)), "≤ 1.2")
		add("time beyond the dump / the first one's", (c.Durable-c.Dump).Seconds()/(first.Durable-first.Dump).Seconds(), "≤ 0.25")
	}
	return out
}
