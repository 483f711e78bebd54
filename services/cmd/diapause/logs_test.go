package main

import (
	"bytes"
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
