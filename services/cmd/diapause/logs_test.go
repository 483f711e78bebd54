package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestLastLines(t *testing.T) {
	var out, errs bytes.Buffer
	var w written
	for i, text := range []string{"one\n", "two\nth", "ree\n", "four\n"} {
		to := &out
		if i == 1 {
			to = &errs
		}
		if _, err := w.to(to).Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	for n, want := range map[int]string{0: "", 1: "four\n", 2: "three\nfour\n", 3: "two\nthree\nfour\n", 4: "one\ntwo\nthree\nfour\n", 9: "one\ntwo\nthree\nfour\n"} {
		if got := string(w.all[w.lastLines(n):]); got != want {
			t.Errorf("the last %d lines are %q, want %q", n, got, want)
		}
	}
	if err := w.print(w.lastLines(3)); err != nil {
		t.Fatal(err)
	}
	if out.String() != "ree\nfour\n" || errs.String() != "two\nth" {
		t.Errorf("printed %q and, on standard error, %q", out.String(), errs.String())
	}
	none := written{}
	if none.lastLines(3) != 0 {
		t.Error("no output has lines")
	}
	unfinished := written{all: []byte("one\ntwo")}
	if got := string(unfinished.all[unfinished.lastLines(1):]); got != "two" {
		t.Errorf("the last line is %q", got)
	}
}

// However much a session has printed, no more is held than the lines that are asked for, and a bit, and never more than the cap.
func TestLastLinesAreHeldAlone(t *testing.T) {
	line := strings.Repeat("x", 1000)
	for _, c := range []struct {
		lines, printed int
		line           string
		most           int
	}{
		{3, 8_000, line, 3 * leastWritten},
		{20_000, 50_000, line, 4 * 20_000 * 1100},
		{10_000, 100, strings.Repeat("y", 1<<20), maxWritten + maxWritten/4 + 2<<20},
		{2, 20, strings.Repeat("z", 4<<20), 4 * (2*4<<20 + leastWritten)},
	} {
		var out bytes.Buffer
		w := written{lines: c.lines}
		to, most, next := w.to(&out), 0, 0
		for i := range c.printed {
			if _, err := fmt.Fprintf(to, "%06d %s\n", i, c.line); err != nil {
				t.Fatal(err)
			}
			most = max(most, len(w.all))
		}
		if most > c.most || len(w.pieces) != 1 {
			t.Errorf("of %d lines of %d bytes %d bytes were held, in %d pieces", c.lines, len(c.line), most, len(w.pieces))
		}
		from := w.lastLines(c.lines)
		if err := w.print(from); err != nil {
			t.Fatal(err)
		}
		got := strings.Count(out.String(), "\n")
		if next = c.printed - got; !strings.HasPrefix(out.String(), fmt.Sprintf("%06d ", next)) || got != c.lines && !(w.capped && got < c.lines && out.Len() > maxWritten*3/4) {
			t.Errorf("the last %d lines of %d bytes begin with %.10q, and are %d", c.lines, len(c.line), out.String(), got)
		}
		if total := w.dropped + len(w.all); total != c.printed*(len(c.line)+8) {
			t.Errorf("%d bytes are counted", total)
		}
		// What follows goes on from there, though the beginning isn't held any more.
		var rest bytes.Buffer
		follows := (&skipper{first: w.first, dropped: w.dropped, was: w.all, from: from}).to(&rest)
		for i := range c.printed + 1 {
			if _, err := fmt.Fprintf(follows, "%06d %s\n", i, c.line); err != nil {
				t.Fatal(err)
			}
		}
		if want := fmt.Sprintf("%s%06d %s\n", out.String(), c.printed, c.line); rest.String() != want {
			t.Errorf("what follows begins with %.10q, and has %d bytes, want %d", rest.String(), rest.Len(), len(want))
		}
	}
}

func TestSkipper(t *testing.T) {
	for name, c := range map[string]struct {
		was    string
		from   int
		pieces []string
		want   string
	}{
		"as it was":             {"one\ntwo\n", 4, []string{"one\ntwo\n"}, "two\n"},
		"in pieces, with more":  {"one\ntwo\n", 4, []string{"on", "e\nt", "wo\n", "three\n"}, "two\nthree\n"},
		"with more in one":      {"one\ntwo\n", 4, []string{"one\ntwo\nthree\n"}, "two\nthree\n"},
		"its beginning dropped": {"one\ntwo\nthree\n", 8, []string{"two\nthree\n", "four\n"}, "three\nfour\n"},
		"other than it was":     {"one\n", 4, []string{"two\n"}, "two\n"},
		"nothing before":        {"", 0, []string{"one\n"}, "one\n"},
	} {
		var out bytes.Buffer
		s := &skipper{was: []byte(c.was), from: c.from}
		for _, p := range c.pieces {
			if n, err := s.to(&out).Write([]byte(p)); err != nil || n != len(p) {
				t.Errorf("%s: wrote %d of %q, %v", name, n, p, err)
			}
		}
		if out.String() != c.want {
			t.Errorf("%s: %q, want %q", name, out.String(), c.want)
		}
	}
}
