package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/events/attach"
	emulator "github.com/diapause/diapause/events/screen"
)

// The forms of an exported recording.
const (
	asciicast = "asciicast"
	plainText = "text"
	asHTML    = "html"
	jsonLines = "jsonl"
)

var exportForms = []string{asciicast, plainText, asHTML, jsonLines}

func exportCommand(c *client) *cobra.Command {
	form := asciicast
	var since time.Duration
	cmd := &cobra.Command{
		Use: "export NAME", Short: "Print the recording of a session's terminal, for a player or other programs", Args: cobra.ExactArgs(1),
		Example: "  diapause export work > work.cast    # asciinema play work.cast\n  diapause export --format text work",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(exportForms, form) {
				return usagef("--format %q: want %s", form, strings.Join(exportForms, ", "))
			}
			shown := attach.History{Events: true}
			if since < 0 {
				return usagef("--since %v: want how long ago, e.g. 2h", since)
			}
			if since > 0 {
				shown.Since = time.Now().Add(-since)
			}
			return c.export(cmd.Context(), args[0], form, shown)
		},
	}
	cmd.Flags().StringVar(&form, "format", form, "asciicast (version 3), text or html for all lines as they read on a terminal, or jsonl for all events with their times")
	durationVar(cmd.Flags(), &since, "since", 0, "what was recorded in the last `DURATION`, e.g. 2h")
	return cmd
}

// export prints a recording.
func (c *client) export(ctx context.Context, name, form string, shown attach.History) error {
	if form == jsonLines {
		return c.output(ctx, name, false, &shown, &wholeLines{to: printed}, complained)
	}
	out := &gathered{to: printed}
	var err error
	switch form {
	case plainText:
		err = c.text(ctx, name, shown, out)
	case asHTML:
		err = c.exportHTML(ctx, name, shown, out)
	default:
		cast := newCastWriter(out)
		err = c.eachEvent(ctx, name, shown, complained, cast.event)
	}
	return errors.Join(err, out.flush())
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

// exportHTML prints a recording as a page of HTML.
func (c *client) exportHTML(ctx context.Context, name string, shown attach.History, to io.Writer) error {
	started := false
	write := func(text string) error {
		if !started { // nothing is printed of what isn't there
			started = true
			text = fmt.Sprintf(pageHead, html.EscapeString(name)) + text
		}
		_, err := io.WriteString(to, text)
		return err
	}
	err := c.transcribe(ctx, name, shown, func(l emulator.Line) error { return write(l.HTML()) }, func(n int64) error { return write(gapText(n)) })
	if err != nil {
		return err
	}
	return write(pageEnd)
}

// idleLimit is how long a player waits at most where nothing happens, in seconds: a session may sleep for weeks.
const idleLimit = 2

// castHeader is the first line of an asciicast.
type castHeader struct {
	Version   int     `json:"version"`
	Term      castTTY `json:"term"`
	Timestamp int64   `json:"timestamp"`
	IdleLimit float64 `json:"idle_time_limit"`
}

type castTTY struct {
	Cols int `json:"cols"`
	Rows int `json:"rows"`
}

// castWriter writes events as an asciicast, version 3.
type castWriter struct {
	enc   *json.Encoder
	last  time.Time
	track emulator.Tracker
}

func newCastWriter(w io.Writer) *castWriter {
	out := &castWriter{enc: json.NewEncoder(w)}
	out.enc.SetEscapeHTML(false)
	return out
}

// event writes an event. Frames are output where a player couldn't know else what was shown.
func (w *castWriter) event(e attach.Event) error {
	begins, frame := w.track.Event(e.At, e.Code, dataOf(e))
	var size string
	if begins {
		rows, cols, paint, _ := emulator.CutFrame(dataOf(e))
		size = fmt.Sprintf("%dx%d", cols, rows)
		e.Text, e.Base64 = "", paint
	}
	if w.last.IsZero() {
		head := castHeader{Version: 3, Term: castTTY{Cols: 80, Rows: 24}, Timestamp: e.Time.Unix(), IdleLimit: idleLimit}
		if e.Code == "r" {
			size = e.Text
		}
		_, _ = fmt.Sscanf(size, "%dx%d", &head.Term.Cols, &head.Term.Rows) // or what is usual
		if err := w.enc.Encode(head); err != nil {
			return err
		}
		w.last = e.Time
	}
	if begins {
		if err := w.write(e.Time, "r", size); err != nil {
			return err
		}
	}
	if frame {
		e.Code = "o"
	}
	code, text := castEvent(e)
	if code == "" {
		return nil
	}
	return w.write(e.Time, code, text)
}

func (w *castWriter) write(at time.Time, code, text string) error {
	after := max(at.Sub(w.last), 0).Truncate(time.Microsecond)
	w.last = w.last.Add(after)
	return w.enc.Encode([]any{json.Number(fmt.Sprintf("%.6f", after.Seconds())), code, text})
}

// castEvent gives an event as an asciicast has it; no code if it has no such event.
func castEvent(e attach.Event) (code, text string) {
	text = e.Text
	if e.Base64 != nil {
		text = strings.ToValidUTF8(string(e.Base64), "\ufffd")
	}
	switch e.Code {
	case "o", "i", "r", "m", "x":
		return e.Code, text
	case "e":
		return "o", text
	case "g":
		return "m", text + " bytes were not recorded"
	}
	return "", ""
}
