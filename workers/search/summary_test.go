package search

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// asked counts how often records are asked for.
type asked struct {
	*yard
	count int
}

func (a *asked) Get(ctx context.Context, n schemas.Name) (statekv.Versioned, error) {
	a.mu.Lock()
	a.count++
	a.mu.Unlock()
	return a.yard.Get(ctx, n)
}

// Of sessions of which no more is recorded, those alone are opened that may have something, and no record is asked for.
func TestSummaries(t *testing.T) {
	y := newYard(t)
	for i := range 6 {
		s := y.session(fmt.Sprintf("work%d", i))
		s.time = noon.Add(time.Duration(i) * time.Hour)
		fill(y, s, 5, fmt.Sprintf("needle in place%d", i))
		if err := y.update(t.Context(), s.Name(), false); err != nil {
			t.Fatal(err)
		}
	}
	records := &asked{yard: y}
	y.Records = records
	y.want(words("needle", "place2"), "work2#3 output: needle in place2\n")
	y.cache.most = 150 << 10 // no room for indexes
	y.want(words("needle", "place3"), "work3#3 output: needle in place3\n")
	if n := y.cache.opened.Len(); n > 2 {
		t.Errorf("%d indexes are open", n)
	}
	records.count, y.store.gets = 0, 0
	y.want(words("nowhere"), "")
	y.want(words("needle", "place7"), "")
	if records.count != 0 || y.store.gets != 0 {
		t.Errorf("%d records and %d objects are read for what is nowhere", records.count, y.store.gets)
	}
	y.want(words("place4"), "work4#3 output: needle in place4\n")
	one := y.store.gets
	if y.want(words("command-4"), strings.Join([]string{
		"work5#5 commands: command-4", "work4#5 commands: command-4", "work3#5 commands: command-4",
		"work2#5 commands: command-4", "work1#5 commands: command-4", "work0#5 commands: command-4", "",
	}, "\n")); records.count != 0 || one == 0 {
		t.Errorf("%d records are read, and %d objects for one session", records.count, one)
	}
	q := words("this", "that")
	q.Limit = 3
	y.store.gets = 0
	if found, _ := y.finds(q); strings.Count(found, "work5#5 output") != 3 {
		t.Errorf("the last lines are\n%s", found)
	}
	if y.store.gets > 3*one {
		t.Errorf("%d objects are read for lines of the last session; %d of one", y.store.gets, one)
	}
}

// What comes after a session was summed up is found, whether or not its record says so; and what was forgotten isn't, whichever version a client lists.
func TestSummaryEnds(t *testing.T) {
	y := newYard(t)
	s := y.session("work")
	fill(y, s, 3, "needle")
	y.want(words("needle"), "work#2 output: needle\n")
	version := s.Version
	y.types(s, "second", 0, "another needle42\r\n")
	s.Version = version
	y.Touch(s.Name(), s.UID)
	y.want(words("needle42"), "work#4 output: another needle42\n")

	y.types(s, "third", 0, "now needle43\r\n")
	y.want(words("needle43"), "work#5 output: now needle43\n")
	listed := attach.Searched{Name: s.Name().String(), UID: s.UID, Version: s.Version}
	if _, known := y.cache.knows(listed); !known {
		t.Error("it isn't summed up")
	}

	y.mu.Lock()
	s.State = schemas.Deleted
	y.mu.Unlock()
	y.Forget(s.UID)
	err := y.Search(t.Context(), attach.Search{Words: []string{"third"}, Limit: 1}, []attach.Searched{listed}, func(f attach.Found) error {
		return fmt.Errorf("found %+v", f)
	}, func(string) error { return nil })
	if err != nil {
		t.Error(err)
	}
}

// What came while the store couldn't be read is found when it can.
func TestSearchAfterAnError(t *testing.T) {
	y := newYard(t)
	s := y.session("work")
	fill(y, s, 3, "needle")
	y.want(words("needle"), "work#2 output: needle\n")
	version := s.Version
	y.types(s, "second", 0, "another needle42\r\n")
	s.Version = version
	y.Touch(s.Name(), s.UID)
	y.store.away = errors.New("the store is away")
	q := words("needle42")
	q.Limit = 1
	err := y.Search(t.Context(), q, []attach.Searched{{Name: s.Name().String(), UID: s.UID, Version: version}}, nil, nil)
	if !errors.Is(err, y.store.away) {
		t.Fatalf("it ends with %v", err)
	}
	y.store.away = nil
	y.want(words("needle42"), "work#4 output: another needle42\n")
}
