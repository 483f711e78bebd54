package million

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/diapause/diapause/e2e/compat/local"
	"github.com/diapause/diapause/events/stream"
)

const preface = `# Deciding about %d sessions

Written by ` + "`make bench-million`" + `; don't edit.

- commit: %s
- machine: %s
- at: %s; load average before the run: %s

One session in ten runs, the others are suspended; to one in twenty a client is
connected (a lease). Each has its last input and heartbeat in the activity stream, and
its last %d revisions of about 2 KB in the log of records. A scheduler, a consumer and each NATS
server is a process of its own on this machine; the first two compute on one core
(GOMAXPROCS=1) where nothing else is said. What is
read is read %d times, by a bare consumer and a scheduler in turn; the median counts. All
servers sync every write.

| what | figure | aim |
| --- | --: | --: |
`

const closing = `
"Late" is from when a session's grace is over to when its record says that it is
suspended, seen from outside: it holds the way of its last activity to the scheduler, the
decision, and the write of the record to the disk of one server, or of most of three.
What comes in is input of sessions that run. Where nine in ten sleep, most of it wakes
one, which is two more writes to the same disk, of a record and of a command.
What a scheduler remembers is its memory in use after a collection; the process is
larger for as long as it reads.

A server that is behind with its writes stores all that has come in before it delivers any
of it. What is said is heard late then by as long as that takes, and a reader that asks
for less than comes in meanwhile falls ever further behind; the scheduler asks for %d.

## Splitting the work

Activity carries a partition token (1 of %d, made by the server from tenant and session), so
that several schedulers could each take a part of it. Until then one acts. It is due when
one core no longer does: at about half of the rate above at which it folds, so that a
restart under load still catches up. The server is at its limit long before that, at as many
messages a second as its disk syncs: each is synced by itself. When "its last activity on
its way to the scheduler" grows beyond a second and the scheduler's core isn't busy, it is
the server that has to be relieved: by a faster disk; by publishers that say less (the Go
client sends at most one message a second for each session and kind); by three servers,
which sync many messages at once.
`

// Table writes what was found, for the documents.
func Table(ctx context.Context, f *Found, load string, partitions int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, preface, f.Sessions, local.Commit(ctx), local.Machine(), time.Now().UTC().Format(time.RFC3339), load, revisions, rounds)
	row := func(aim, what, format string, args ...any) {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", what, fmt.Sprintf(format, args...), aim)
	}
	var said, records []Read
	for _, o := range f.Fold {
		said, records = append(said, o.Activity), append(records, o.Records)
	}
	compare := func(what, aim string, bare, fold []Read) {
		for _, in := range []struct {
			unit, aim string
			by        func(Read) float64
		}{{"a second", aim, Read.Rate}, {"a second of computing", "", Read.Work}} {
			unit, by := in.unit, in.by
			a, b := by(middle(bare, by)), by(middle(fold, by))
			row("", what+" read by a bare ordered consumer, "+unit, "%.0f", a)
			row(in.aim, what+" folded by a scheduler, "+unit, "%.0f: %.0f %%", b, 100*b/a)
		}
	}
	compare("activity", "70 %", f.Bare, said)
	compare("records", "", f.BareLog, records)
	ready := middle(f.Fold, func(o Folded) float64 { return o.Ready.Seconds() })
	row("15 s", "a scheduler's restart on all cores, until it decides", "%.1f s", f.Again.Ready.Seconds())
	row("", "the same on one core", "%.1f s", ready.Ready.Seconds())
	row("", "the server's restart, until it takes connections", "%.1f s", f.Restart.Seconds())
	heap := middle(f.Fold, func(o Folded) float64 { return float64(o.Heap) })
	row("400 B", "a scheduler's memory for each session", "%d B", heap.Heap/uint64(max(heap.Sessions, 1)))
	row("", "the server's memory for a million sessions", "%.1f GB", float64(f.Memory)/float64(f.Sessions)/1e3)
	row("", "its disk for a million sessions", "%.1f GB", float64(f.Disk)/float64(f.Sessions)/1e3)
	f.One.rows(row, "one server", "1 s")
	f.Woken.rows(row, "one server, of sessions of which nine in ten sleep", "")
	if f.Cluster > 0 {
		f.Clustered.rows(row, fmt.Sprintf("three servers, %d sessions", f.Cluster), "1 s")
	}
	fmt.Fprintf(&b, closing, stream.LargeBatch, partitions)
	return b.Bytes()
}

func (l Late) rows(row func(aim, what, format string, args ...any), where, aim string) {
	row("", "activity coming in, "+where, "%.0f/s", l.Rate)
	row("", "records written meanwhile", "%.0f/s", l.Records)
	row(aim, "decisions late, 99th percentile", "%.0f ms", ms(l.P99))
	row("", "median, and the latest", "%.0f ms, %.0f ms of %d", ms(l.Median), ms(l.Worst), l.Decisions)
	row("", "its last activity on its way to the scheduler: median, 99th percentile, the latest", "%s", l.Heard)
	row("", "after the grace until it was decided", "%s", l.Decided)
	row("", "and until the record was written and said so", "%s", l.Written)
}

// String is what a row of the table has of it.
func (s Spread) String() string {
	return fmt.Sprintf("%.0f ms, %.0f ms, %.0f ms", ms(s.Median), ms(s.P99), ms(s.Worst))
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// middle is the median by a figure.
func middle[T any](all []T, by func(T) float64) T {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b T) int { return cmp.Compare(by(a), by(b)) })
	return sorted[len(sorted)/2]
}
