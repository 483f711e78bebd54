package screen

import (
	"bytes"
	"fmt"
	"strconv"
)

// The kinds of events of a recording that matter to what a terminal shows: see objectstore/recording.
const (
	eventOutput = "o"
	eventErrors = "e"
	eventResize = "r"
	eventFrame  = "k"
	eventGap    = "g"
)

// Tracker follows the events of a recording, and knows where a frame is needed: where output before it is missing.
// Elsewhere a frame is what is shown already.
type Tracker struct {
	at     int64 // position in the output
	lost   bool  // output is missing
	within bool  // the last event was a part of a frame
	needed bool  // that frame is needed
}

// Event takes the next event: its position in the output, its kind and its data. begins says that a frame begins that is needed,
// frame that the event is a part of one.
func (t *Tracker) Event(at int64, code string, data []byte) (begins, frame bool) {
	first := code == eventFrame && !t.within
	if t.within = code == eventFrame; !t.within {
		t.needed = false
	}
	switch code {
	case eventOutput, eventErrors:
		t.reach(at)
		t.at += int64(len(data))
	case eventGap:
		t.reach(at)
		t.at, t.lost = t.at+gapOf(data), true
	case eventFrame:
		t.reach(at)
		if first && t.lost {
			_, _, _, t.needed = CutFrame(data)
		}
		begins = first && t.needed
		t.lost = t.lost && !begins
	}
	return begins, t.within && t.needed
}

// reach notices that output is missing before an event.
func (t *Tracker) reach(at int64) {
	if t.at != at {
		t.at, t.lost = at, true
	}
}

// gapOf is how many bytes of output are missing.
func gapOf(data []byte) int64 {
	n, err := strconv.ParseInt(string(data), 10, 64)
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// CutFrame gives the size and what paints it of the first event of a frame.
func CutFrame(data []byte) (rows, cols int, paint []byte, ok bool) {
	head, paint, found := bytes.Cut(data, []byte("\n"))
	rows, cols, ok = size(head)
	return rows, cols, paint, found && ok
}

// Playback shows the events of a recording on a screen, from any of them on. Where output is missing it goes on with the next
// frame; the others it passes over.
type Playback struct {
	screen  *Screen
	track   Tracker
	missing int64 // bytes of output that weren't recorded, since the last line
	paints  bool  // a frame comes, which isn't new to those who take lines

	line func(Line)
	gap  func(bytes int64)
}

// NewPlayback makes one of a recording of which nothing was read yet.
func NewPlayback() *Playback { return &Playback{screen: New(24, 80)} }

// Screen is what was shown last. It is another one after a frame.
func (p *Playback) Screen() *Screen { return p.screen }

// Known reports whether the screen shows what was shown, as no output before it is missing.
func (p *Playback) Known() bool { return !p.track.lost }

// Lines has line called from now on with each line that leaves the screen at its top or is cleared, and gap where
// output is missing. Programs that fill the second screen have no lines.
func (p *Playback) Lines(line func(Line), gap func(bytes int64)) {
	p.line, p.gap = line, gap
	p.listen()
}

// End has line called with what is shown.
func (p *Playback) End() {
	if p.line != nil {
		p.screen.gone.flush(p.screen.main)
		p.tellGap()
	}
}

// Event takes the next event: its position in the output, its kind and its data.
func (p *Playback) Event(at int64, code string, data []byte) {
	begins, frame := p.track.Event(at, code, data)
	if p.paints && !frame {
		p.paints = false
		p.listen()
	}
	switch {
	case begins:
		p.frame(data)
	case frame, code == eventOutput, code == eventErrors:
		p.screen.Write(data)
	case code == eventResize:
		if rows, cols, ok := size(data); ok {
			p.screen.Resize(rows, cols)
		}
	case code == eventGap:
		p.missing += gapOf(data)
	}
}

// frame begins a frame.
func (p *Playback) frame(data []byte) {
	if p.line != nil {
		p.screen.gone.flush(p.screen.main)
		p.tellGap()
	}
	p.missing = 0 // it is before what is told
	rows, cols, paint, _ := CutFrame(data)
	p.screen, p.paints = New(rows, cols), true
	p.screen.Write(paint)
}

// listen has the lines that leave the screen told.
func (p *Playback) listen() {
	if p.line != nil && !p.paints {
		p.screen.gone = func(l *line) { p.line(Line{p.screen.glyphs, l}) }
	}
}

func (p *Playback) tellGap() {
	if p.missing > 0 {
		p.gap(p.missing)
	}
	p.missing = 0
}

// size reads COLSxROWS.
func size(text []byte) (rows, cols int, ok bool) {
	n, _ := fmt.Sscanf(string(text), "%dx%d", &cols, &rows)
	return rows, cols, n == 2 && rows > 0 && cols > 0
}

// Line is a row that has left a screen. It is valid until the next Event.
type Line struct {
	glyphs *glyphs
	line   *line
}

// Text is what the line has, without blanks at its end, and with a line feed unless its text goes on in the next one.
func (l Line) Text() string {
	cells := l.line.cells
	if !l.line.wraps {
		for len(cells) > 0 && cells[len(cells)-1].char == ' ' {
			cells = cells[:len(cells)-1]
		}
	}
	text := cellsText(l.glyphs, cells)
	if !l.line.wraps {
		text += "\n"
	}
	return text
}

// outlet takes lines that leave the main screen; it may be nil.
type outlet func(*line)

// flush takes all lines that are shown there, without the blank ones at its end.
func (o outlet) flush(main *grid) {
	if o == nil {
		return
	}
	end := len(main.lines)
	for end > 0 && main.lines[end-1].isBlank() {
		end--
	}
	if end > 0 {
		main.lines[end-1].wraps = false
	}
	for _, l := range main.lines[:end] {
		o(l)
	}
}

// leave takes the first lines, from top on, if they leave a screen at its top.
func (o outlet) leave(s *Screen, top, n int) {
	if o == nil || s.alt != nil || top > 0 {
		return
	}
	o.first(s.main, n)
}

// first takes the first lines of the main screen, if there are any to take.
func (o outlet) first(main *grid, n int) {
	if o == nil {
		return
	}
	for _, l := range main.lines[:min(max(n, 0), len(main.lines))] {
		o(l)
	}
}

// isBlank reports whether a line has no text.
func (l *line) isBlank() bool {
	for _, c := range l.cells {
		if c.char != ' ' {
			return false
		}
	}
	return true
}
