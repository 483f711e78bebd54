package index

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// tape is a recording in memory.
type tape struct {
	t        *testing.T
	segments []recording.Segment
	events   [][]recording.Event
	at       int64
}

// segment adds one, of pieces of output a second apart.
func (p *tape) segment(pieces ...string) {
	n := uint64(len(p.segments) + 1)
	s := recording.Segment{Ref: recording.Ref{Run: "run", Number: n, Digest: fmt.Sprint("digest ", n)}}
	s.Header.Start, s.Header.From = p.at, noon.Add(time.Duration(n)*time.Minute)
	var events []recording.Event
	for i, piece := range pieces {
		e := recording.Event{Time: s.Header.From.Add(time.Duration(i) * time.Second), Code: recording.Output, Data: []byte(piece), At: p.at}
		events = append(events, e)
		p.at += int64(len(piece))
	}
	s.Header.End = p.at
	p.segments, p.events = append(p.segments, s), append(p.events, events)
}

// feed has an index read the segments from one on.
func (p *tape) feed(x *Index, from int) {
	p.t.Helper()
	for i := from; i < len(p.segments); i++ {
		x.Segment(p.segments[i])
		for _, e := range p.events[i] {
			x.Event(e)
		}
	}
	if x.Err() != nil {
		p.t.Fatal(x.Err())
	}
}

func newTape(t *testing.T) *tape { return &tape{t: t} }

func newIndex(t *testing.T) *Index {
	t.Helper()
	x, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	return x
}

// again encodes an index, and opens that.
func again(t *testing.T, x *Index) (*Index, []byte) {
	t.Helper()
	data, err := x.Encode()
	if err != nil {
		t.Fatal(err)
	}
	y, err := Open(data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(y.Close)
	return y, data
}

// find gives the lines that have words, each once, the last one first, and how many blocks were read for them.
func (p *tape) find(x *Index, words ...string) (lines []string, blocks int) {
	p.t.Helper()
	q, err := NewQuery(words)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.ask(x, q)
}

func (p *tape) ask(x *Index, q *Query) (lines []string, blocks int) {
	p.t.Helper()
	seen := map[int64]bool{}
	add := func(all []Line) {
		for _, h := range q.Find(all, 0) {
			if !seen[h.At] {
				lines = append(lines, h.Text)
			}
		}
		for _, l := range all {
			seen[l.At] = true
		}
	}
	add(x.Tail())
	places, err := x.Blocks(q, time.Time{})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, b := range places {
		all, err := ReadBlock(b, func(fn func(recording.Event) error) error {
			for i, s := range p.segments[:b.End.Number] {
				if s.Header.End <= b.From {
					continue
				}
				for _, e := range p.events[i] {
					if err := fn(e); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			p.t.Fatal(err)
		}
		add(all)
	}
	p.sees(x, q, len(lines) > 0)
	return lines, len(places)
}

// both looks in an index, and in one that was stored and opened.
func (p *tape) both(words string, want ...string) {
	p.t.Helper()
	x := newIndex(p.t)
	p.feed(x, 0)
	if got, _ := p.find(x, words); !slices.Equal(got, want) {
		p.t.Errorf("%q: %q, want %q", words, got, want)
	}
	y, _ := again(p.t, x)
	if got, _ := p.find(y, words); !slices.Equal(got, want) {
		p.t.Errorf("%q, stored: %q, want %q", words, got, want)
	}
}

// Lines are as they read on a terminal, in any pieces and segments.
func TestEmulation(t *testing.T) {
	for _, c := range []struct{ output, words, want string }{
		{"\x1b[31mred\x1b[0m\x1b]0;title\x07 apple\r\n", "red apple", "red apple"},
		{"progress 10%\rprogress 99%\r\n", "99", "progress 99%"},
		{"typo\b\b\b\bword\r\n", "word", "word"},
		{"連絡先は東京です\r\n", "東京", "連絡先は東京です"},
		{"Ünïcode ÜBER alles\r\n", "über", "Ünïcode ÜBER alles"},
		{"bad \xff\xfe\x80bytes\r\n", "bytes", "bad bytes"},
		{"\x00\x01binary\x02 blob\x7f\r\n", "binary blob", "binary blob"},
		{"before\r\n\x1b[?1049hsecret editor\r\n\x1b[?1049lafter vim\r\n", "after vim", "after vim"},
		{"id 550e8400-e29b-41d4-a716-446655440000 ok\r\n", "550e8400-e29b-41d4-a716-446655440000", "id 550e8400-e29b-41d4-a716-446655440000 ok"},
		{"no newline yet", "newline", "no newline yet"},
		{"e\u0301clair 👩‍🚀 emoji\r\n", "emoji", "e\u0301clair 👩‍🚀 emoji"},
	} {
		for cut := range len(c.output) {
			p := newTape(t)
			p.segment("first line\r\n", c.output[:cut])
			p.segment(c.output[cut:])
			p.both(c.words, c.want)
			if t.Failed() {
				t.Fatalf("of %q, cut at %d", c.output, cut)
			}
		}
	}
}

// What programs show on the second screen, and sequences themselves, are found nowhere.
func TestNoText(t *testing.T) {
	p := newTape(t)
	p.segment("$ vim\r\n\x1b[?1049h", "editor\r\n")
	p.segment("inside\r\n", "\x1b[?1049l\x1b[38;5;196mdone\x1b]8;;http://link\x07\r\n")
	p.both("editor")
	p.both("inside")
	p.both("38")
	p.both("link")
	p.both("done", "done")
}

// Words are whole ones, and several in quotes are in a row.
func TestWords(t *testing.T) {
	p := newTape(t)
	p.segment("connection refused: errors\r\n", "refused the connection\r\n", "foo_bar.baz=12 a->b\r\n")
	p.both("connection refused", "connection refused: errors")
	p.both("error")
	p.both("ERRORS", "connection refused: errors")
	p.both("foo_bar.baz", "foo_bar.baz=12 a->b")
	p.both("bar", "foo_bar.baz=12 a->b")
	p.both("1")
	x := newIndex(t)
	p.feed(x, 0)
	if got, _ := p.find(x, "refused", "connection"); len(got) != 2 {
		t.Errorf("both words are in %q", got)
	}
}

// Nothing that is asked for is in the language of the database.
func TestHostileWords(t *testing.T) {
	p := newTape(t)
	p.segment(`say "hello" AND (NOT near) text:x* ^y -z 'it''s' NULL;--`+"\r\n", strings.Repeat("filler line\r\n", 5000))
	x := newIndex(t)
	p.feed(x, 0)
	for _, words := range []string{`"hello"`, `AND`, `(NOT near)`, `text:x*`, `^y`, `-z`, `'it''s'`, `NULL;--`, `hello" AND (NOT`, `NEAR(a b)`, "*", `"`, `""`, "a\x00b", "OR OR OR", "東*"} {
		q, err := NewQuery([]string{words})
		if err != nil {
			t.Errorf("%q: %v", words, err)
			continue
		}
		want := 0
		if strings.Contains(fold(`say "hello" AND (NOT near) text:x* ^y -z 'it''s' NULL;--`), fold(words)) {
			want = 1
		}
		if got, _ := p.ask(x, q); len(got) != want {
			t.Errorf("%q is in %q", words, got)
		}
	}
	for _, words := range [][]string{{}, {""}, {" "}, {"\xff"}, {strings.Repeat("x", maxQuery+1)}, strings.Fields(strings.Repeat("x ", maxWords+1))} {
		if _, err := NewQuery(words); err == nil {
			t.Errorf("%.20q is taken", words)
		}
	}
	if _, err := NewPattern("("); err == nil {
		t.Error("a bad expression is taken")
	}
}

// An index goes on where it was, whether it was stored meanwhile or not, and however the output is cut into segments: lines are
// found once each, as if it had been read at once.
func TestGoesOn(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var all strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&all, "line %d of \x1b[1mmany\x1b[0m %x", i, random.Uint64())
		if random.IntN(20) > 0 {
			all.WriteString("\r\n")
		}
		if random.IntN(300) == 0 {
			all.WriteString("\x1b[?1049h second\r\nscreen \x1b[?1049l")
		}
	}
	all.WriteString("the end")
	text := all.String()
	whole := newTape(t)
	whole.segment(text)
	x := newIndex(t)
	whole.feed(x, 0)
	want, _ := whole.find(x, "many")
	if len(want) < 2000 {
		t.Fatalf("only %d lines", len(want))
	}
	p := newTape(t)
	y := newIndex(t)
	for len(text) > 0 {
		n := min(1+random.IntN(4000), len(text))
		p.segment(text[:n/2], text[n/2:n])
		text = text[n:]
		p.feed(y, len(p.segments)-1)
		if random.IntN(10) == 0 {
			y, _ = again(t, y)
			from := max(len(p.segments)-20, 0)
			for from > 0 && p.segments[from].Header.Start > y.At() {
				from--
			}
			p.feed(y, from)
		}
		if random.IntN(20) == 0 {
			y.Rest()
		}
	}
	if got, _ := p.find(y, "many"); !slices.Equal(got, want) {
		t.Errorf("%d lines, want %d", len(got), len(want))
	}
}

// Where output is missing the text goes on behind it.
func TestGap(t *testing.T) {
	p := newTape(t)
	p.segment("before\r\nhalf a l")
	p.at += 1000
	p.segment("ine\r\nbehind it\r\n")
	p.both("before", "before")
	p.both("half", "half a l")
	p.both("behind", "behind it")
}

// A line that doesn't end is found in parts, and holds bounded memory.
func TestEndlessLine(t *testing.T) {
	p := newTape(t)
	for range 100 {
		p.segment(strings.Repeat("word \r", 10000))
	}
	p.segment("needle")
	x := newIndex(t)
	p.feed(x, 0)
	if got, _ := p.find(x, "needle"); len(got) != 1 {
		t.Errorf("it is in %d lines", len(got))
	}
	if n := len(x.transcript.out); n > longest {
		t.Errorf("%d bytes are pending", n)
	}
}

// Commands are found with their output, and are kept in few bytes.
func TestCommands(t *testing.T) {
	x := newIndex(t)
	many := int64(20_000)
	if os.Getenv("DIAPAUSE_LONG") != "" {
		many = 100_000
	}
	var all []schemas.TypedCommand
	for i := range many {
		exit := int(i % 3)
		all = append(all, schemas.TypedCommand{Number: i + 1, Text: fmt.Sprintf("make target-%d", i), Dir: "/home", Began: noon.Add(time.Duration(i) * time.Second), Ended: noon.Add(time.Duration(i)*time.Second + 250*time.Millisecond), Exit: &exit, From: i * 200, To: i*200 + 100})
	}
	all = append(all, schemas.TypedCommand{Number: many + 1, Text: "sleep", Began: noon.Add(time.Duration(many) * time.Second), From: many * 200})
	x.Add(slices.Clone(all))
	x.covers = &recording.Ref{Run: "run", Number: 1}
	y, data := again(t, x)
	if int64(len(data)) > many*40 {
		t.Errorf("they take %d bytes", len(data))
	}
	for i, c := range y.Commands() {
		want := all[i]
		if c.Number != want.Number || c.Text != want.Text || !c.Began.Equal(want.Began) || !c.Ended.Equal(want.Ended) || c.From != want.From || c.To != want.To || (c.Exit == nil) != (want.Exit == nil) || c.Exit != nil && *c.Exit != *want.Exit {
			t.Fatalf("it is %+v, want %+v", c, want)
		}
	}
	for at, want := range map[int64]int64{0: 1, 50: 1, 150: 0, 200: 2, 299: 2, many*200 + 5: many + 1} {
		got := int64(0)
		if c := y.CommandAt(at); c != nil {
			got = c.Number
		}
		if got != want {
			t.Errorf("at %d it is command %d, want %d", at, got, want)
		}
	}
	if y.Known() != many+1 {
		t.Errorf("known is %d", y.Known())
	}
	failed := func(c schemas.TypedCommand) bool { return c.Exit != nil && *c.Exit == 2 }
	if y.Within(Block{From: 0, To: 399}, failed) || !y.Within(Block{From: 0, To: 401}, failed) || y.Within(Block{From: 500, To: 600}, failed) {
		t.Error("commands within a block are wrong")
	}
	var flood []schemas.TypedCommand
	for i := range int64(MaxCommands + 10) {
		flood = append(flood, schemas.TypedCommand{Number: i + 1, Text: strings.Repeat("x", 1<<10)})
	}
	x.Add(flood)
	if n := len(x.Commands()); x.texts > maxTexts || n == 0 || x.Commands()[n-1].Number != MaxCommands+10 {
		t.Errorf("%d are kept, of %d bytes", n, x.texts)
	}
}

// Damage is an error, and nothing else.
func TestDamage(t *testing.T) {
	p := newTape(t)
	p.segment(strings.Repeat("some words here\r\n", 3000))
	x := newIndex(t)
	p.feed(x, 0)
	data, err := x.Encode()
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(3, 4))
	q, err := NewQuery([]string{"words"})
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		bad := slices.Clone(data)
		for range 1 + random.IntN(50) {
			bad[random.IntN(len(bad))] = byte(random.Uint32())
		}
		if y, err := Open(bad[:1+random.IntN(len(bad))]); err == nil {
			_, _ = y.Blocks(q, time.Time{})
			y.Close()
		}
	}
	for range 1000 {
		b := make([]byte, random.IntN(40))
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		_, _ = decodeCommands(b)
	}
	if _, err := Open([]byte("no database")); err == nil {
		t.Error("it is taken for an index")
	}
}

// A long line is cut around what was looked for.
func TestCut(t *testing.T) {
	q, err := NewQuery([]string{"needle"})
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Repeat("ü", 3000) + " NEEDLE " + strings.Repeat("ä", 3000)
	if got := q.Cut(line); !strings.Contains(got, "NEEDLE") || len([]rune(got)) > longLine+4 || !strings.HasPrefix(got, "… ü") || !strings.HasSuffix(got, "ä …") {
		t.Errorf("it is %q", got)
	}
	if got := Cut(line); !strings.HasSuffix(got, "ü …") || strings.HasPrefix(got, "…") {
		t.Errorf("it is %q", got)
	}
}

// Secrets are in no index, and aren't found by words; what is around them is.
func TestSecrets(t *testing.T) {
	p, x := newTape(t), newIndex(t)
	p.segment("export DB_PASSWORD=correcthorse\r\n", "-----BEGIN PRIVATE KEY-----\r\nabcdefghij\r\n", "klmnopqrst\r\n-----END PRIVATE KEY-----\r\n", "a battery\r\n")
	x.Add([]schemas.TypedCommand{{Number: 1, Text: "mysql --password=correcthorse shop", Began: noon}})
	p.feed(x, 0)
	check := func(x *Index) {
		t.Helper()
		for _, word := range []string{"correcthorse", "abcdefghij", "klmnopqrst"} {
			if lines, _ := p.find(x, word); len(lines) > 0 {
				t.Errorf("%s is found: %q", word, lines)
			}
		}
		if lines, _ := p.find(x, "export", "password"); !slices.Equal(lines, []string{"export DB_PASSWORD=correcthorse"}) {
			t.Errorf("its line is %q", lines)
		}
		if lines, _ := p.find(x, "battery"); len(lines) != 1 {
			t.Errorf("another line is %q", lines)
		}
		q, err := NewPattern("correct.*")
		if err != nil {
			t.Fatal(err)
		}
		if lines, _ := p.ask(x, q); len(lines) != 1 {
			t.Errorf("by an expression it is %q", lines)
		}
		if c := x.Commands(); len(c) != 1 || c[0].Text != "mysql --password=************ shop" {
			t.Errorf("the command is %+v", c)
		}
	}
	check(x)
	y, data := again(t, x)
	check(y)
	for _, secret := range []string{"correcthorse", "abcdefghij", "klmnopqrst"} {
		if strings.Contains(string(data), secret) {
			t.Errorf("%s is in the index", secret)
		}
	}
	if !EchoOf("$ mysql --password=correcthorse shop", y.Commands()[0].Text) || EchoOf("$ mysql", y.Commands()[0].Text) {
		t.Error("the line in which it was typed isn't known")
	}
}
