package search

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
)

func words(w ...string) attach.Search { return attach.Search{Words: w} }

// Lines and commands are found over all sessions, the last one first, with their commands and what is around them.
func TestSearch(t *testing.T) {
	y := newYard(t)
	a, b := y.session("work"), y.session("acme/other")
	y.types(a, "make all", 2, "cc one.c\r\nerror: no rule\r\nstopped\r\n")
	b.time = noon.Add(time.Minute)
	y.types(b, "grep error log", 0, "an error here\r\n")
	y.types(a, "echo done", 0, "done\r\n")
	y.want(words("error"), "acme/other#1 output: an error here\nacme/other#1 commands: grep error log\nwork#1 output: error: no rule\n")
	y.want(words("ERROR", "rule"), "work#1 output: error: no rule\n")
	y.want(attach.Search{Words: []string{"error"}, In: attach.InCommands}, "acme/other#1 commands: grep error log\n")
	y.want(attach.Search{Words: []string{"error"}, In: attach.InOutput, Exit: "nonzero"}, "work#1 output: error: no rule\n")
	y.want(attach.Search{Words: []string{"error"}, Exit: "0", Limit: 1}, "acme/other#1 output: an error here\n")
	y.want(attach.Search{Words: []string{"rule"}, Context: 1}, "work#1 output: error: no rule after [\"cc one.c\"] before [\"stopped\"]\n")
	y.want(attach.Search{Words: []string{"error"}, Until: noon.Add(30 * time.Second)}, "work#1 output: error: no rule\n")
	y.want(attach.Search{Words: []string{"err[o]r: .*"}, Regexp: true, Since: noon.Add(-time.Hour)}, "work#1 output: error: no rule\n")
	y.want(attach.Search{Words: []string{"^error"}, Regexp: true, Since: noon.Add(time.Hour)}, "")
	y.want(words("nothing"), "")

	// What comes later is found as soon as it is stored.
	y.types(a, "true", 0, "one more error\r\n")
	y.want(attach.Search{Words: []string{"error"}, In: attach.InOutput, Limit: 3}, "acme/other#1 output: an error here\nacme/other output: $ grep error log\nwork#3 output: one more error\n")
}

// What would have all read is refused, and so is what is out of bounds.
func TestRefused(t *testing.T) {
	y := newYard(t)
	y.session("a")
	y.session("b")
	ask := func(q attach.Search, of []attach.Searched) error {
		return y.Search(t.Context(), q, of, func(attach.Found) error { return nil }, func(string) error { return nil })
	}
	for _, q := range []attach.Search{{Words: []string{"x.*"}, Regexp: true}, {Words: []string{"->"}}} {
		q.Limit = 1
		if err := ask(q, y.all()); !errors.Is(err, ErrWide) {
			t.Errorf("%q in all: %v", q.Words, err)
		}
		if err := ask(q, y.all()[:1]); err != nil {
			t.Errorf("%q in one: %v", q.Words, err)
		}
	}
	for _, q := range []attach.Search{{Words: []string{"x"}}, {Words: []string{"x"}, Limit: MaxLimit + 1}, {Limit: 1}, {Words: []string{"x"}, Limit: 1, In: "files"}, {Words: []string{"x"}, Limit: 1, Context: -1}, {Words: []string{"(", ")"}, Limit: 1, Regexp: true}, {Words: []string{"("}, Limit: 1, Regexp: true}} {
		if err := ask(q, y.all()[:1]); err == nil {
			t.Errorf("%+v is taken", q)
		}
	}
}

// fill has so much recorded of a session, with one line that isn't like the others.
func fill(y *yard, s *taped, segments int, needle string) {
	for i := range segments {
		var b strings.Builder
		for n := range 500 {
			fmt.Fprintf(&b, "line %d of segment %d: this and that\r\n", n, i)
		}
		if i == segments/2 {
			b.WriteString(needle + "\r\n")
		}
		y.types(s, fmt.Sprintf("command-%d", i), 0, b.String())
	}
}

// An index is stored beside the recording, encrypted, and used by who comes next: little of the recording is read for it.
func TestKeeps(t *testing.T) {
	y := newYard(t)
	s := y.session("work")
	fill(y, s, 20, "secret needle")
	if err := y.update(t.Context(), s.Name(), false); err != nil {
		t.Fatal(err)
	}
	kept := y.objects(".index-1")
	if len(kept) != 1 || !strings.HasPrefix(kept[0], fmt.Sprintf("%s/%s/recording/%s/", s.Tenant, s.Lineage, s.UID)) {
		t.Fatalf("stored is %q", kept)
	}
	for _, name := range y.objects("") {
		r, err := y.store.Get(t.Context(), name, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		for _, plain := range []string{"needle", "segment", "SQLite"} {
			if strings.Contains(string(data), plain) {
				t.Errorf("%s has %q in it", name, plain)
			}
		}
	}
	y.starts(y.key)
	before := y.store.gets
	y.want(words("needle"), "work#11 output: secret needle\n")
	if n := y.store.gets - before; n > 25 {
		t.Errorf("%d objects are read for it", n)
	}

	// It goes on, and takes the place of the one before.
	fill(y, s, 10, "another needle")
	y.want(words("needle"), "work#26 output: another needle\nwork#11 output: secret needle\n")
	if err := y.update(t.Context(), s.Name(), false); err != nil {
		t.Fatal(err)
	}
	if now := y.objects(".index-1"); len(now) != 1 || now[0] == kept[0] {
		t.Errorf("stored is %q, was %q", now, kept)
	}
	y.starts(y.key)
	y.want(words("needle"), "work#26 output: another needle\nwork#11 output: secret needle\n")

	// A damaged one is made again, and so is one by a host that isn't trusted.
	name := y.objects(".index-1")[0]
	for _, content := range []string{"", "diapause-index 1\n{}\nAAAA\nx", strings.Repeat("x", 5000)} {
		if err := y.store.Delete(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if err := y.store.Put(t.Context(), name, strings.NewReader(content), int64(len(content))); err != nil {
			t.Fatal(err)
		}
		y.starts(y.key)
		y.want(words("another", "needle"), "work#26 output: another needle\n")
	}
	if err := y.Rebuild(t.Context(), s.Name()); err != nil {
		t.Fatal(err)
	}
	y.starts(y.key)
	y.want(words("needle"), "work#26 output: another needle\nwork#11 output: secret needle\n")
}

// Without a key nothing is found, and the client is told.
func TestNoKey(t *testing.T) {
	y := newYard(t)
	fill(y, y.session("work"), 5, "needle")
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for _, identities := range [][]age.Identity{nil, {other}} {
		y.starts(identities...)
		q := words("needle")
		q.Limit = 1
		err := y.Search(t.Context(), q, y.all(), func(f attach.Found) error { return fmt.Errorf("found %+v", f) }, func(string) error { return nil })
		if !errors.Is(err, image.ErrNoKey) {
			t.Errorf("it is %v", err)
		}
	}
}

// A session that is removed leaves nothing: not in the store, not in memory, and not by a host that goes on with its index meanwhile.
func TestRemoved(t *testing.T) {
	y := newYard(t)
	s := y.session("work")
	fill(y, s, 10, "needle")
	if err := y.update(t.Context(), s.Name(), false); err != nil {
		t.Fatal(err)
	}
	y.want(words("needle"), "work#6 output: needle\n")
	y.mu.Lock()
	s.State = schemas.Deleted
	y.mu.Unlock()
	if err := image.DeleteLineage(t.Context(), y.store, s.Tenant, s.Lineage); err != nil {
		t.Fatal(err)
	}
	if left := y.objects(""); len(left) > 0 {
		t.Errorf("left is %q", left)
	}
	y.want(words("needle"), "")

	e := y.cache.lock(s.UID)
	if err := y.keep(t.Context(), e, s.Name()); err != nil {
		t.Fatal(err)
	}
	y.Forget(s.UID)
	y.cache.unlock(e)
	if left := y.objects(""); len(left) > 0 {
		t.Errorf("left is %q", left)
	}
	if y.cache.sum != 0 || len(y.cache.all) != 0 {
		t.Errorf("in memory are %d bytes", y.cache.sum)
	}
}

// A session that was taken back to a snapshot has nothing of what came after that.
func TestTakenBack(t *testing.T) {
	y := newYard(t)
	s := y.session("work")
	fill(y, s, 4, "early needle")
	then := *s
	fill(y, s, 4, "late needle")
	y.want(words("needle"), "work#7 output: late needle\nwork#3 output: early needle\n")
	if err := y.update(t.Context(), s.Name(), false); err != nil {
		t.Fatal(err)
	}
	_, kid, _ := recording.SplitRun(s.run)
	s.last, s.at, s.typed, s.run = then.last, then.at, then.typed, recording.RunName(2, kid, "y")
	y.shows(s, nil, "later\r\n")
	y.want(words("needle"), "work#3 output: early needle\n")
	y.starts(y.key)
	y.want(words("needle"), "work#3 output: early needle\n")
}

// A part that is gone or damaged keeps nothing else from being found.
func TestDamaged(t *testing.T) {
	y := newYard(t)
	s, other := y.session("work"), y.session("other")
	fill(y, s, 6, "needle")
	y.types(s, "last", 0, "a later needle\r\n")
	other.time = noon.Add(time.Hour)
	y.types(other, "x", 0, "its needle\r\n")
	name := s.place.Name(s.run, 4)
	r, err := y.store.Get(t.Context(), name, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	data[len(data)-5] ^= 1
	if err := y.store.Delete(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if err := y.store.Put(t.Context(), name, strings.NewReader(string(data)), int64(len(data))); err != nil {
		t.Fatal(err)
	}
	y.want(words("needle"), "other#1 output: its needle\nwork#7 output: a later needle\n")
}

// Indexes that take too much are closed, and opened again when they are asked.
func TestRoom(t *testing.T) {
	y := newYard(t)
	for i := range 8 {
		s := y.session(fmt.Sprintf("work%d", i))
		s.time = noon.Add(time.Duration(i) * time.Hour)
		fill(y, s, 5, fmt.Sprintf("needle in %d", i))
	}
	y.cache.most = 300 << 10
	var want strings.Builder
	for i := 7; i >= 0; i-- {
		fmt.Fprintf(&want, "work%d#3 output: needle in %d\n", i, i)
	}
	for range 3 {
		y.want(words("needle"), want.String())
		if y.cache.sum > y.cache.most+200<<10 {
			t.Errorf("they take %d bytes", y.cache.sum)
		}
	}
}

// Serve goes on with the indexes of sessions of which more is stored.
func TestServe(t *testing.T) {
	y := newYard(t)
	y.gather = 0
	s := y.session("work")
	fill(y, s, 10, "needle")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- y.Serve(ctx) }()
	y.Touch(s.Name(), s.UID)
	for wait := time.Now().Add(time.Minute); len(y.objects(".index-1")) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(wait) {
			t.Fatal("no index is stored")
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// What is held is bounded by the limit, however many sessions have more. A session that is named twice is searched once, and a template is none.
func TestBounds(t *testing.T) {
	y := newYard(t)
	for i := range 6 {
		s := y.session(fmt.Sprint("work", i))
		s.time = noon.Add(time.Duration(i) * time.Hour)
		for n := range 5 {
			y.types(s, fmt.Sprintf("echo needle %d", n), 0, "x\r\n")
		}
	}
	q := words("needle")
	q.Limit, q.In = 2, attach.InCommands
	of := y.all()
	of = append(of, of...)
	want, err := query(q, len(of))
	if err != nil {
		t.Fatal(err)
	}
	h := y.hunt(q, want)
	if err := h.look(t.Context(), of); err != nil {
		t.Fatal(err)
	}
	if len(h.all) > 2*q.Limit {
		t.Errorf("it holds %d lines", len(h.all))
	}
	y.want(q, "work5#5 commands: echo needle 4\nwork5#4 commands: echo needle 3\n")

	template, err := schemas.ParseTemplate("work5")
	if err != nil {
		t.Fatal(err)
	}
	y.mu.Lock()
	y.records[template.String()] = y.records["work5"]
	y.mu.Unlock()
	err = y.Search(t.Context(), q, []attach.Searched{{Name: template.String()}}, func(f attach.Found) error { return fmt.Errorf("found %+v", f) }, func(string) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "is a template") {
		t.Errorf("of a template it says %v", err)
	}
	looks := 0
	y.Seal = func(context.Context, schemas.SessionRecord) { looks++ }
	y.mu.Lock()
	y.records["work5"].State = schemas.Running
	y.mu.Unlock()
	one := attach.Searched{Name: "work5"}
	err = y.Search(t.Context(), q, []attach.Searched{one, one, one}, func(attach.Found) error { return nil }, func(string) error { return nil })
	if err != nil || looks != 1 {
		t.Errorf("it was looked at %d times, %v", looks, err)
	}
}
