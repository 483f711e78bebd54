package index

import (
	"bytes"
	"time"

	"github.com/diapause/diapause/events/screen"
	"github.com/diapause/diapause/objectstore/recording"
)

// Stretch is text that a part of the output reads as: whole lines, unless one is very long.
type Stretch struct {
	From, To int64 // its part of the output, by positions
	Second   bool  // the part begins on the terminal's second screen
	Time     time.Time
	Text     string
}

// longest is how much output may come without a line's end. Then it is taken as if there were one.
const longest = 256 << 10

// Transcript makes text of the events of a recording. It begins anywhere in it where a Stretch does.
type Transcript struct {
	text   *screen.Text
	from   int64 // where what is pending begins
	at     int64
	second bool // at from
	time   time.Time
	out    []byte
}

// NewTranscript makes one that begins at a position.
func NewTranscript(from int64, second bool) *Transcript {
	return &Transcript{text: screen.NewText(second), from: from, at: from, second: second}
}

// At gives where what is pending begins, and whether that is on the second screen.
func (t *Transcript) At() (from int64, second bool) { return t.from, t.second }

// Event takes the next event, and calls fn with the text that it completes. What is before the beginning is passed over.
func (t *Transcript) Event(e recording.Event, fn func(Stretch)) {
	n := e.Length()
	if n == 0 || e.At+n <= t.at {
		return
	}
	if e.At > t.at { // output is missing
		t.Flush(fn)
		t.restart(e.At, false)
	}
	data := e.Data
	if e.Code == recording.Gap {
		t.Flush(fn)
		t.restart(e.At+n, false)
		return
	}
	if e.Code != recording.Output { // what Diapause wrote beside it
		t.at = e.At + n
		if t.out == nil && t.settled() {
			t.from = t.at
		}
		return
	}
	t.time = e.Time
	for data = data[t.at-e.At:]; len(data) > 0; {
		part := data[:bytes.IndexByte(data, '\n')+1]
		if len(part) == 0 {
			part = data
		}
		data = data[len(part):]
		t.take(part, fn)
	}
}

// settled reports whether nothing is pending.
func (t *Transcript) settled() bool {
	second, ok := t.text.Rest()
	return ok && second == t.second
}

// take takes a part of the output that may end with a line.
func (t *Transcript) take(part []byte, fn func(Stretch)) {
	t.out = append(t.out, t.text.Write(part)...)
	t.at += int64(len(part))
	second, ok := t.text.Rest()
	if !ok && t.at-t.from > longest {
		t.out = append(t.out, t.text.End()...)
		t.text = screen.NewText(second)
		ok = true
	}
	if ok {
		t.tell(second, fn)
	}
}

// tell hands over what there is, and begins again after it.
func (t *Transcript) tell(second bool, fn func(Stretch)) {
	if len(t.out) > 0 {
		fn(Stretch{From: t.from, To: t.at, Second: t.second, Time: t.time, Text: string(t.out)})
	}
	t.from, t.second, t.out = t.at, second, nil
}

func (t *Transcript) restart(at int64, second bool) {
	t.text, t.from, t.at, t.second, t.out = screen.NewText(second), at, at, second, nil
}

// Flush calls fn with what is pending as if the output ended. Nothing can be added after that but with a gap.
func (t *Transcript) Flush(fn func(Stretch)) {
	second, _ := t.text.Rest()
	t.out = append(t.out, t.text.End()...)
	t.tell(second, fn)
}

// Pending gives what isn't a whole line yet, if it is anything.
func (t *Transcript) Pending() (s Stretch, ok bool) {
	text := string(t.out) + t.text.Line()
	return Stretch{From: t.from, To: t.at, Second: t.second, Time: t.time, Text: text}, text != ""
}
