package export

import (
	"cmp"
	"fmt"
	"html"
	"io"
	"time"

	"github.com/diapause/diapause/events/attach"
	emulator "github.com/diapause/diapause/events/screen"
)

// transcriber gives what a recording reads as on a terminal, line by line.
type transcriber struct {
	play *emulator.Playback
	line func(emulator.Line) error
	gap  func(bytes int64) error
	from time.Time // what had left the screen before is left out
	err  error
}

func newTranscriber(line func(emulator.Line) error, gap func(bytes int64) error) *transcriber {
	return &transcriber{play: emulator.NewPlayback(), line: line, gap: gap}
}

// Event implements Writer.
func (t *transcriber) Event(e attach.Event) error {
	if e.Code == attach.CodeFrom {
		t.from = e.Time
		return nil
	}
	if !e.Time.Before(t.from) {
		t.begin()
	}
	t.play.Event(e.At, e.Code, e.Data())
	return t.err
}

// begin has the lines that follow told.
func (t *transcriber) begin() {
	t.from = time.Time{}
	t.play.Lines(func(l emulator.Line) { t.err = cmp.Or(t.err, t.line(l)) }, func(n int64) { t.err = cmp.Or(t.err, t.gap(n)) })
}

// End implements Writer.
func (t *transcriber) End() error {
	t.play.End()
	return t.err
}

// gapText says that output is missing.
func gapText(n int64) string {
	if n == 1 {
		return "[1 byte of output was not recorded]\n"
	}
	return fmt.Sprintf("[%d bytes of output were not recorded]\n", n)
}

// newText writes what a recording reads as.
func newText(to io.Writer) *transcriber {
	return newTranscriber(func(l emulator.Line) error {
		_, err := io.WriteString(to, l.Text())
		return err
	}, func(n int64) error {
		_, err := io.WriteString(to, gapText(n))
		return err
	})
}

// The page of a recording. It has no script, and asks for nothing.
const (
	pageHead = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>%s</title>
<style>body{margin:0;background:#000;color:#ddd}pre{margin:1em;font-family:monospace}</style>
</head>
<body>
<pre class="terminal">
`
	pageEnd = `</pre>
</body>
</html>
`
)

// page writes a recording as a page of HTML.
type page struct {
	*transcriber
	title   string
	to      io.Writer
	started bool
}

func newPage(title string, to io.Writer) *page {
	p := &page{title: title, to: to}
	p.transcriber = newTranscriber(func(l emulator.Line) error { return p.write(l.HTML()) }, func(n int64) error { return p.write(gapText(n)) })
	return p
}

// write writes a part of the page, whose head comes first: nothing is written of what isn't there.
func (p *page) write(text string) error {
	if !p.started {
		p.started = true
		text = fmt.Sprintf(pageHead, html.EscapeString(p.title)) + text
	}
	_, err := io.WriteString(p.to, text)
	return err
}

// End implements Writer.
func (p *page) End() error {
	if err := p.transcriber.End(); err != nil {
		return err
	}
	return p.write(pageEnd)
}
