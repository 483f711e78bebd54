package index

import (
	"cmp"
	"errors"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
)

// Line is one of the text.
type Line struct {
	At   int64 // position in the output
	End  int64 // where it ends
	Time time.Time
	Text string
}

// Hit is a line that was looked for.
type Hit struct {
	Line
	Before, After []string
}

// Lines cuts text into its lines.
func Lines(text []Stretch) (lines []Line) {
	for _, s := range text {
		at := s.From
		for line := range strings.Lines(s.Text) {
			lines = append(lines, Line{at, s.To, s.Time, strings.TrimSuffix(line, "\n")})
			at++ // of what has no positions of its own
		}
	}
	return lines
}

// Find gives those of some lines that are looked for, the last one first, with so many before and after it. By words no secret is found, since
// none is indexed.
func (q *Query) Find(lines []Line, context int) (hits []Hit) {
	var without []string // of secrets
	for i, l := range slices.Backward(lines) {
		if !q.During(l.Time, l.Time) || !q.Matches(l.Text) {
			continue
		}
		if q.pattern == nil && without == nil {
			without = withoutSecrets(lines)
		}
		if q.pattern == nil && !q.Matches(without[i]) {
			continue
		}
		h := Hit{Line: l}
		for _, b := range lines[max(i-context, 0):i] {
			h.Before = append(h.Before, b.Text)
		}
		for _, a := range lines[i+1 : min(i+1+context, len(lines))] {
			h.After = append(h.After, a.Text)
		}
		hits = append(hits, h)
	}
	return hits
}

// withoutSecrets gives the texts of lines.
func withoutSecrets(lines []Line) []string {
	texts := make([]string, len(lines))
	for i, l := range lines {
		texts[i] = l.Text
	}
	return strings.Split(masked(strings.Join(texts, "\n")), "\n")
}

// ErrWhole ends the reading of a segment of which the rest is beyond a block.
var ErrWhole = errors.New("all of the block is read")

// ReadBlock gives the lines of a block. events calls its function with the events of the segments in which the block is, until that
// gives ErrWhole.
func ReadBlock(b Block, events func(fn func(recording.Event) error) error) ([]Line, error) {
	var text []Stretch
	add := func(s Stretch) { text = append(text, s) }
	t := NewTranscript(b.From, b.Second)
	err := events(func(e recording.Event) error {
		if n := e.Length(); e.Code != recording.Gap && e.At < b.To && e.At+n > b.To {
			e.Data = e.Data[:b.To-e.At]
		} else if e.At >= b.To && n > 0 {
			return ErrWhole
		}
		t.Event(e, add)
		return nil
	})
	t.Flush(add)
	if errors.Is(err, ErrWhole) {
		err = nil
	}
	return Lines(text), err
}

// Gone reports whether much of the index is of output that is deleted: the recording begins with that segment now.
func (x *Index) Gone(oldest recording.Ref) bool {
	n := sort.Search(len(x.blocks), func(i int) bool {
		end := x.blocks[i].End
		return cmp.Or(cmp.Compare(end.Run, oldest.Run), cmp.Compare(end.Number, oldest.Number)) >= 0
	})
	return n > 0 && n >= len(x.blocks)/goneParts
}

// goneParts says how much that is: one of so many.
const goneParts = 4

// Blocks gives the blocks that may have a line and didn't end before a moment, the last one first.
func (x *Index) Blocks(q *Query, oldest time.Time) (blocks []Block, err error) {
	without, none := x.sift(q)
	take := func(id int64) {
		if id < 0 || id >= int64(len(x.blocks)) || without(int(id)) {
			return
		}
		if b := x.blocks[id]; q.During(b.Began, b.Ended) && !b.Ended.Before(oldest) {
			blocks = append(blocks, b)
		}
	}
	if none || x.latest.Before(oldest) || x.latest.Before(q.Since) {
		return nil, nil
	}
	if !q.Scans() {
		err = x.db.match(q.expression(x.hashed), take)
		return blocks, err
	}
	for id := range slices.Backward(x.blocks) {
		take(int64(id))
	}
	return blocks, nil
}

// Tail gives the lines that came after the last block.
func (x *Index) Tail() []Line {
	text := x.tail
	if s, ok := x.transcript.Pending(); ok {
		text = append(slices.Clip(text), s)
	}
	return Lines(text)
}

// Commands are those that are known, by their number. They are valid until the index changes.
func (x *Index) Commands() []schemas.TypedCommand { return x.commands }

// CommandAt gives the command whose output has a position; nil if none is known.
func (x *Index) CommandAt(at int64) *schemas.TypedCommand {
	n := sort.Search(len(x.commands), func(i int) bool { return x.commands[i].From > at })
	if n == 0 {
		return nil
	}
	if c := &x.commands[n-1]; c.Running() || at < c.To {
		return c
	}
	return nil
}

// CommandAfter gives the first command whose output begins after a position; nil if none is known.
func (x *Index) CommandAfter(at int64) *schemas.TypedCommand {
	n := sort.Search(len(x.commands), func(i int) bool { return x.commands[i].From > at })
	if n == len(x.commands) {
		return nil
	}
	return &x.commands[n]
}

// Known gives the number of the first command of which more may come; 1 if none is known.
func (x *Index) Known() int64 {
	if n := len(x.commands); n > 0 {
		if last := x.commands[n-1]; last.Running() {
			return last.Number
		}
		return x.commands[n-1].Number + 1
	}
	return 1
}

// EchoOf reports whether a line is one in which a text was typed, that of a command as the index has it.
func EchoOf(line, text string) bool {
	return strings.HasSuffix(line, text) || strings.HasSuffix(masked(line), text)
}

// Within reports whether a part of a block's output is that of a command of some kind.
func (x *Index) Within(b Block, is func(schemas.TypedCommand) bool) bool {
	n := sort.Search(len(x.commands), func(i int) bool { return x.commands[i].From >= b.To })
	for _, c := range slices.Backward(x.commands[:n]) {
		if !c.Running() && c.To <= b.From {
			return false
		}
		if is(c) {
			return true
		}
	}
	return false
}

// MaxCommands bounds how many commands an index has, and maxTexts their texts in bytes: the last ones.
const (
	MaxCommands = 1 << 18
	maxTexts    = 64 << 20
)

// Add has commands, without secrets, which take the place of those with their numbers.
func (x *Index) Add(all []schemas.TypedCommand) {
	slices.SortFunc(all, func(a, b schemas.TypedCommand) int { return cmp.Compare(a.Number, b.Number) })
	for _, c := range all {
		c.Dir, c.Text = "", masked(c.Text)
		x.texts += int64(len(c.Text))
		at, found := slices.BinarySearchFunc(x.commands, c.Number, func(have schemas.TypedCommand, n int64) int { return cmp.Compare(have.Number, n) })
		if found {
			x.texts -= int64(len(x.commands[at].Text))
			x.commands[at] = c
		} else {
			x.commands = slices.Insert(x.commands, at, c)
		}
	}
	drop := max(len(x.commands)-MaxCommands, 0)
	texts := x.texts
	for _, c := range x.commands[:drop] {
		texts -= int64(len(c.Text))
	}
	for ; texts > maxTexts; drop++ {
		texts -= int64(len(x.commands[drop].Text))
	}
	x.texts, x.commands = texts, slices.Delete(x.commands, 0, drop)
}
