package search

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/objectstore"
)

// number reads a variable.
func number(b *testing.B, name string, usual int) int {
	b.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		b.Fatalf("%s=%q: want a number", name, text)
	}
	return n
}

// benchLine is a line of output of some kind: of logs, builds and tests.
func benchLine(session, n int) string {
	x := uint32(session*1_000_003+n) * 2654435761
	words := []string{"request", "handler", "database", "timeout", "cache", "worker", "queue", "client", "session", "retry", "upstream", "token", "metrics", "config", "shard", "replica"}
	w := func(i int) string { return words[(x>>i)%uint32(len(words))] }
	switch x % 4 {
	case 0:
		return fmt.Sprintf("2026-05-04T12:%02d:%02d.%06dZ INFO %s/%s took %dms id=%08x", n/60%60, n%60, x%1e6, w(3), w(7), x%5000, x)
	case 1:
		return fmt.Sprintf("\x1b[32m[%3d%%]\x1b[0m Building %s/%s_%d.o", n%100, w(4), w(9), x%1000)
	case 2:
		return fmt.Sprintf("ok  \tgithub.com/example/%s/%s\t%d.%03ds", w(5), w(11), x%10, x%1000)
	}
	return fmt.Sprintf("the %s of the %s waits for a %s of %s", w(2), w(6), w(10), w(13))
}

// BenchmarkSearch searches SEARCH_SESSIONS sessions (100) with SEARCH_MEGABYTES of output in all (30). It prints how long a search takes, of which
// nothing but what the searcher keeps is in memory, at the 50th and 99th percentile, as it was and in processor time; what the indexes take
// of the output; and how long one for words takes that are in many blocks, but on few lines together. SEARCH_MEMORY is what the searcher may
// take, in MiB. SEARCH_KINDS of the sessions (20) have output of their own, all others that of one of these and some lines more. With SEARCH_DIR,
// a directory, recordings and indexes are kept there for the next run.
func BenchmarkSearch(b *testing.B) {
	sessions := number(b, "SEARCH_SESSIONS", 100)
	each := number(b, "SEARCH_MEGABYTES", 30) << 20 / sessions
	y := newYard(b)
	folder := os.Getenv("SEARCH_DIR")
	if folder == "" || !openKept(y, folder) {
		record(b, y, sessions, min(sessions, number(b, "SEARCH_KINDS", 20)), each, func() {
			if folder != "" {
				y.keepIn(folder)
			}
		})
		y.starts(y.key)
	}
	y.cache.most = int64(number(b, "SEARCH_MEMORY", 128)) << 20
	var raw, stored int64
	err := y.store.List(b.Context(), "", func(i objectstore.Info) error {
		if strings.HasSuffix(i.Name, ".index-1") {
			stored += i.Size
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	for _, s := range y.records {
		raw += s.at
	}
	asked := []attach.Search{
		words("timeout"), words("upstream", "replica"), words("waits for a cache"), words("make"), words("nowhere"), words("0badcafe9"), words("5000ms", "database"),
		{Words: []string{"only here"}, In: attach.InOutput}, {Words: []string{"target0"}, In: attach.InCommands},
	}
	for i := range 20 {
		asked = append(asked, words(fmt.Sprintf("session%d", i*sessions/20), "only"))
	}
	of := y.all()
	ask := func(q attach.Search) (took, used time.Duration) {
		q.Limit, q.Context = 20, 1
		at, before := time.Now(), processorTime(b)
		if err := y.Search(b.Context(), q, of, func(attach.Found) error { return nil }, func(string) error { return nil }); err != nil {
			b.Fatal(err)
		}
		return time.Since(at), processorTime(b) - before
	}
	first, used := ask(words("only"))
	b.Logf("the first search takes %s, %s of a processor; %d MB are in memory then", first, used, y.cache.sum/1e6)
	var took, uses []time.Duration
	for i := 0; b.Loop(); i++ {
		q := asked[i%len(asked)]
		t, u := ask(q)
		if took, uses = append(took, t), append(uses, u); os.Getenv("SEARCH_EACH") != "" {
			b.Logf("%-30q %8.1f ms, %8.1f ms of a processor", q.Words, milliseconds(t), milliseconds(u))
		}
	}
	apart, _ := ask(words("of-1", "only"))
	b.ReportMetric(milliseconds(apart), "ms-apart")
	slices.Sort(took)
	slices.Sort(uses)
	b.ReportMetric(milliseconds(took[len(took)/2]), "ms-p50")
	b.ReportMetric(milliseconds(took[len(took)*99/100]), "ms-p99")
	b.ReportMetric(milliseconds(uses[len(took)/2]), "cpu-ms-p50")
	b.ReportMetric(milliseconds(uses[len(took)*99/100]), "cpu-ms-p99")
	b.ReportMetric(100*float64(stored)/float64(raw), "%-of-output")
	b.ReportMetric(float64(y.cache.sum)/1e6, "MB-in-memory")
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// processorTime is what the process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
