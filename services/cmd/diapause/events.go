package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/diapause/diapause/events/attach"
	emulator "github.com/diapause/diapause/events/screen"
)

// maxEventLine bounds a line of an event, in bytes.
const maxEventLine = 1 << 20

// eachEvent calls fn with the events of a recording, in their order. fn's error ends it. notes gets what is said of them.
func (c *client) eachEvent(ctx context.Context, name string, shown attach.History, notes io.Writer, fn func(attach.Event) error) error {
	shown.Events = true
	events, to := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := readEvents(events, fn)
		events.CloseWithError(cmp.Or(err, io.ErrClosedPipe)) // else what comes would wait for ever
		done <- err
	}()
	err := c.output(ctx, name, false, &shown, to, notes)
	to.CloseWithError(cmp.Or(err, io.EOF))
	if fnErr := <-done; fnErr != nil {
		return fnErr
	}
	return err
}

// readEvents calls fn with the events that are the lines of r.
func readEvents(r io.Reader, fn func(attach.Event) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxEventLine)
	for lines.Scan() {
		var e attach.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("read an event: %w", err)
		}
		if err := fn(e); err != nil {
			return err
		}
	}
	return lines.Err()
}

// dataOf is the data of an event.
func dataOf(e attach.Event) []byte {
	if e.Base64 != nil {
		return e.Base64
	}
	return []byte(e.Text)
}

// gathered gathers what is written in whole characters, and writes it so.
type gathered struct {
	to io.Writer
	b  []byte
}

const gatheredMost = 64 << 10

func (g *gathered) Write(p []byte) (int, error) {
	g.b = append(g.b, p...)
	if len(g.b) < gatheredMost {
		return len(p), nil
	}
	return len(p), g.flush()
}

func (g *gathered) flush() error {
	_, err := g.to.Write(g.b)
	g.b = g.b[:0]
	return err
}

// wholeLines writes what is written to it line by line.
type wholeLines struct {
	to   io.Writer
	rest []byte
}

func (w *wholeLines) Write(p []byte) (int, error) {
	n := bytes.LastIndexByte(p, '\n') + 1
	if n == 0 {
		w.rest = append(w.rest, p...)
		return len(p), nil
	}
	_, err := w.to.Write(append(w.rest, p[:n]...))
	w.rest = append(w.rest[:0], p[n:]...)
	return len(p), err
}

// transcriber gives what a recording reads as on a terminal, line by line.
type transcriber struct {
	*emulator.Playback
	line func(emulator.Line) error
	gap  func(bytes int64) error
	from time.Time // what had left the screen before is left out
	err  error
}

func newTranscriber(line func(emulator.Line) error, gap func(bytes int64) error) *transcriber {
	return &transcriber{Playback: emulator.NewPlayback(), line: line, gap: gap}
}

// event takes the next event.
func (t *transcriber) event(e attach.Event) error {
	if e.Code == attach.CodeFrom {
		t.from = e.Time
		return nil
	}
	if !e.Time.Before(t.from) {
		t.begin()
	}
	t.Event(e.At, e.Code, dataOf(e))
	return t.err
}

// begin has the lines that follow told.
func (t *transcriber) begin() {
	t.from = time.Time{}
	t.Lines(func(l emulator.Line) { t.err = cmp.Or(t.err, t.line(l)) }, func(n int64) { t.err = cmp.Or(t.err, t.gap(n)) })
}

// end takes the last lines.
func (t *transcriber) end() error {
	t.End()
	return t.err
}

// transcribe writes what a recording reads as.
func (c *client) transcribe(ctx context.Context, name string, shown attach.History, line func(emulator.Line) error, gap func(bytes int64) error) error {
	t := newTranscriber(line, gap)
	shown.Framed = true
	if err := c.eachEvent(ctx, name, shown, complained, t.event); err != nil {
		return err
	}
	return t.end()
}

// gapText says that output is missing.
func gapText(n int64) string {
	return fmt.Sprintf("[%s of output were not recorded]\n", count(n, "byte"))
}

// text writes the text of a recording.
func (c *client) text(ctx context.Context, name string, shown attach.History, to io.Writer) error {
	return c.transcribe(ctx, name, shown, func(l emulator.Line) error {
		_, err := io.WriteString(to, l.Text())
		return err
	}, func(n int64) error {
		_, err := io.WriteString(to, gapText(n))
		return err
	})
}
