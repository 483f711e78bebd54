package index

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
)

func summaryOf(t *testing.T, x *Index) *Summary {
	t.Helper()
	s, err := x.Summary()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sees checks that a summary leaves out nothing that an index has.
func (p *tape) sees(x *Index, q *Query, found bool) {
	p.t.Helper()
	if s := summaryOf(p.t, x); found && !s.MayShow(q.Sought()) {
		p.t.Errorf("the summary leaves out %v", q)
	}
}

// A summary knows words of blocks, of what is no block yet, and of commands; few that aren't there seem to be.
func TestSummary(t *testing.T) {
	p := newTape(t)
	var output strings.Builder
	for n := range 4000 {
		fmt.Fprintf(&output, "request %d took %dms%s\r\n", n, n*7, strings.Repeat(" of the time that it may take", 10))
	}
	p.segment(output.String())
	p.segment("needle tail99 is the last\r\n$ unfinished")
	x := newIndex(t)
	p.feed(x, 0)
	exit := 0
	last := noon.Add(time.Hour)
	x.Add([]schemas.TypedCommand{{Number: 1, Text: "make install v2beta", Began: last, Ended: last, Exit: &exit}})
	stored, _ := again(t, x)
	for name, x := range map[string]*Index{"as it is": x, "stored": stored} {
		s := summaryOf(t, x)
		ask := func(words ...string) (shows, types bool) {
			q, err := NewQuery(words)
			if err != nil {
				t.Fatal(err)
			}
			return s.MayShow(q.Sought()), s.MayType(q.Sought())
		}
		for _, words := range []string{"request", "took 21ms", "3999", "27993ms", "needle", "tail99", "unfinished", "request 7", "..."} {
			if shows, _ := ask(words); !shows {
				t.Errorf("%s: the output has %q", name, words)
			}
		}
		for _, words := range []string{"nowhere", "tail99 1000", "make", "v2beta"} {
			if shows, _ := ask(words); shows {
				t.Errorf("%s: the output seems to have %q", name, words)
			}
		}
		for _, words := range []string{"install", "v2beta"} {
			if _, types := ask("make", words); !types {
				t.Errorf("%s: a command has %q", name, words)
			}
		}
		if _, types := ask("make", "request"); types {
			t.Errorf("%s: a command seems to have what only the output has", name)
		}
		wrong := 0
		for n := range 1000 {
			if shows, _ := ask(fmt.Sprintf("other%d", n)); shows {
				wrong++
			}
		}
		if wrong > 50 {
			t.Errorf("%s: it seems to have %d of 1000 words that it hasn't", name, wrong)
		}
		if line, command := s.Latest(); !line.Equal(p.events[1][0].Time) || !command.Equal(last) {
			t.Errorf("%s: it ends at %s and %s", name, line, command)
		}
		late, err := NewQuery([]string{"request"})
		if err != nil {
			t.Fatal(err)
		}
		late.Since = last.Add(time.Second)
		if s.MayShow(late.Sought()) || s.MayType(late.Sought()) {
			t.Errorf("%s: it seems to have something after its end", name)
		}
	}
}
