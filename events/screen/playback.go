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

// Playback shows the events of a recording on a screen, from any of them on. Where output is missing it goes on with the next
// frame; the others it passes over, since they say what is known.
type Playback struct {
	screen  *Screen
	at      int64 // position in the output
	lost    bool  // what is shown isn't known to be what was
	missing int64 // bytes of output that weren't recorded, since the last line
	within  bool  // the last event was a part of a frame
	shows   bool  // that frame is shown

	line func(Line)
	gap  func(bytes int64)
}

// NewPlayback makes one of a recording of which nothing was read yet.
func NewPlayback() *Playback { return &Playback{screen: New(24, 80)} }

// Screen is what was shown last. It is another one after a frame.
func (p *Playback) Screen() *Screen { return p.screen }

// Known reports whether the screen shows what was shown, as no output before it is missing.
func (p *Playback) Known() bool { return !p.lost }

// Lines has line called from now on with each line that leaves the screen at its top or is cleared, and gap where
// output is missing. Programs that fill the second screen have no lines.
func (p *Playback) Lines(line func(Line), gap func(bytes int64)) {
	p.line, p.gap = line, gap
	p.screen.gone = p.leaves
}

// End has line called with what is shown.
func (p *Playback) End() {
	if p.line != nil {
		p.screen.flush()
		p.tellGap()
	}
}

// leaves takes a line of the screen.
func (p *Playback) leaves(l *line) { p.line(Line{p.screen.glyphs, l}) }

// Event takes the next event: its position in the output, its kind and its data.
func (p *Playback) Event(at int64, code string, data []byte) {
	first := code == eventFrame && !p.within
	p.within = code == eventFrame
	if !p.within && p.shows { // the frame is complete
		p.shows = false
		if p.line != nil {
			p.screen.gone = p.leaves
		}
	}
	switch code {
	case eventOutput, eventErrors:
		p.reach(at)
		p.at += int64(len(data))
		p.screen.Write(data)
	case eventResize:
		if rows, cols, ok := size(data); ok {
			p.screen.Resize(rows, cols)
		}
	case eventGap:
		p.reach(at)
		n, err := strconv.ParseInt(string(data), 10, 64)
		if err == nil && n > 0 {
			p.at, p.missing, p.lost = p.at+n, p.missing+n, true
		}
	case eventFrame:
		if first {
			p.frame(at, data)
		} else if p.shows {
			p.screen.Write(data)
		}
	}
}

// reach notices that output is missing before an event.
func (p *Playback) reach(at int64) {
	if p.at != at {
		p.at, p.lost = at, true
	}
}

// frame begins a frame.
func (p *Playback) frame(at int64, data []byte) {
	p.reach(at)
	head, paint, _ := bytes.Cut(data, []byte("\n"))
	rows, cols, ok := size(head)
	if !p.lost || !ok {
		return
	}
	if p.line != nil {
		p.screen.flush()
		p.tellGap()
	}
	p.screen, p.lost, p.shows = New(rows, cols), false, true
	p.screen.Write(paint)
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

// flush lets all lines that are shown on the main screen leave it, without the blank ones at its end.
func (s *Screen) flush() {
	if s.gone == nil {
		return
	}
	end := len(s.main.lines)
	for end > 0 && s.main.lines[end-1].isBlank() {
		end--
	}
	if end > 0 {
		s.main.lines[end-1].wraps = false
	}
	for _, l := range s.main.lines[:end] {
		s.gone(l)
	}
}

// leave lets the first lines leave the main screen, if they are at its top.
func (s *Screen) leave(top, n int) {
	if s.gone == nil || s.alt != nil || top > 0 {
		return
	}
	for _, l := range s.main.lines[:min(max(n, 0), len(s.main.lines))] {
		s.gone(l)
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
