package search

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

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
// nothing but indexes is in memory, at the 50th and 99th percentile, and what the indexes take of the output; and how long one for words
// takes that are in many blocks, but on few lines together.
func BenchmarkSearch(b *testing.B) {
	sessions := number(b, "SEARCH_SESSIONS", 100)
	each := number(b, "SEARCH_MEGABYTES", 30) << 20 / sessions
	y := newYard(b)
	y.cache.most = 8 << 30
	for i := range sessions {
		s := y.session(fmt.Sprintf("s%d", i))
		s.time = noon.Add(time.Duration(i) * time.Hour)
		for n, size := 0, 0; size < each; {
			var out strings.Builder
			for ; out.Len() < min(each, 512<<10); n++ {
				out.WriteString(benchLine(i, n) + "\r\n")
			}
			fmt.Fprintf(&out, "only here: unique%d of-%d session%d\r\n", n, i, i)
			size += out.Len()
			y.types(s, fmt.Sprintf("make target%d", n), 0, out.String())
		}
	}
	began := time.Now()
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, of := range y.all() {
		name := y.records[of.Name].Name()
		g.Go(func() error { return y.update(b.Context(), name, false) })
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	built := time.Since(began)
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
	ask := func(q attach.Search) time.Duration {
		q.Limit, q.Context = 20, 1
		at := time.Now()
		if err := y.Search(b.Context(), q, of, func(attach.Found) error { return nil }, func(string) error { return nil }); err != nil {
			b.Fatal(err)
		}
		return time.Since(at)
	}
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		took = append(took, ask(asked[i%len(asked)]))
	}
	b.ReportMetric(float64(ask(words("of-1", "only")).Milliseconds()), "ms-apart")
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-p50")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms-p99")
	b.ReportMetric(100*float64(stored)/float64(raw), "%-of-output")
	b.ReportMetric(float64(raw)/1e6/built.Seconds(), "MB/s-built")
	b.ReportMetric(float64(y.cache.sum)/1e6, "MB-in-memory")
}
