package embedded

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// What a stranger is refused is a line of the log, but not as often as the stranger likes.
func TestRefusalsAreLoggedSeldom(t *testing.T) {
	var log bytes.Buffer
	o := options(t)
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	for range 2 {
		nc := connect(t, s, "", nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		for n := range 200 {
			if err := nc.Publish(fmt.Sprintf("diapause.v1.api.%d", n), nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	s.Shutdown()
	if n := strings.Count(log.String(), "\n"); n < 1 || n > 4 {
		t.Errorf("400 refusals are %d lines of the log:\n%.2000s", n, log.String())
	}
}

func TestSeldom(t *testing.T) {
	var s seldom
	now := time.Now()
	for _, c := range []struct {
		format string
		after  time.Duration
		want   bool
		again  string
	}{
		{"a:1 - cid:1 - x %s", 0, true, ""}, {"b:2 - cid:2 - x %s", 0, false, ""}, {"x %s", 0, true, ""}, {"y", time.Second, true, ""},
		{"c:3 - cid:3 - x %s", sayEvery - 1, false, ""}, {"d:4 - cid:4 - x %s", sayEvery, true, " (and 2 times like it before)"},
		{"d:4 - cid:4 - x %s", 2 * sayEvery, true, ""},
	} {
		if again, ok := s.may(c.format, now.Add(c.after)); ok != c.want || again != c.again {
			t.Errorf("%q after %s: %q, %v; want %q, %v", c.format, c.after, again, ok, c.again, c.want)
		}
	}
	for n := range 10 * maxKinds {
		s.may(fmt.Sprint(n), now)
	}
	if len(s.kinds) > maxKinds {
		t.Errorf("%d kinds are remembered, want at most %d", len(s.kinds), maxKinds)
	}
}
