package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestCompare measures a small process once in every way.
func TestCompare(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var all []Cost
	err := Compare(ctx, []Load{{16, []Change{{"1 %", 99}}}}, 1, func(c Cost) { all = append(all, c) })
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range all {
		names = append(names, c.Who+" "+c.What)
		if c.Durable <= 0 || c.Durable < c.Dump || c.Took < c.Dump {
			t.Errorf("%s %s: %+v", c.Who, c.What, c)
		}
		if c.What == "first" && (c.Stored < 4<<20 || c.Stored > 32<<20) {
			t.Errorf("%s: %d bytes stored of 16 MB", c.Who, c.Stored)
		}
		var b bytes.Buffer
		if err := c.Line(&b); err != nil || strings.Count(b.String(), "\t") != 9 {
			t.Errorf("not a benchmark's line: %q, %v", b.String(), err)
		}
	}
	const want = "diapause first,diapause 1 %,tar first,restic first,tar 1 %,restic 1 %"
	if got := strings.Join(names, ","); got != want {
		t.Errorf("measured %s, want %s", got, want)
	}
	text := string(Compared(ctx, all, 1, "0.00"))
	if n := strings.Count(text, "\n| 16 MB |"); n != len(all)+4 {
		t.Errorf("the document has %d rows, want %d:\n%s", n, len(all)+4, text)
	}
}

func TestMedians(t *testing.T) {
	var all []Cost
	for i, n := range []time.Duration{3, 1, 2} {
		all = append(all, Cost{MB: 1, What: "first", Who: "tar", Round: i, Durable: n, Stored: int64(n) * 10})
	}
	rows := medians(all)
	if len(rows) != 1 || rows[0].Durable != 2 || rows[0].Stored != 20 {
		t.Errorf("the median of %v is %s", all, fmt.Sprint(rows))
	}
}
