package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/events/attach"
)

// The forms of an exported recording.
const (
	asciicast = "asciicast"
	jsonLines = "jsonl"
)

var exportForms = []string{asciicast, jsonLines}

func exportCommand(c *client) *cobra.Command {
	form := asciicast
	var since time.Duration
	cmd := &cobra.Command{
		Use: "export NAME", Short: "Print the recording of a session's terminal, for a player or other programs", Args: cobra.ExactArgs(1),
		Example: "  diapause export work > work.cast    # asciinema play work.cast",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(exportForms, form) {
				return usagef("--format %q: want %s", form, strings.Join(exportForms, " or "))
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
	cmd.Flags().StringVar(&form, "format", form, "asciicast (version 3), or jsonl for all events with their times")
	durationVar(cmd.Flags(), &since, "since", 0, "what was recorded in the last `DURATION`, e.g. 2h")
	return cmd
}

// export prints a recording.
func (c *client) export(ctx context.Context, name, form string, shown attach.History) error {
	if form == jsonLines {
		return c.output(ctx, name, false, &shown, printed, io.Discard)
	}
	events, to := io.Pipe()
	done := make(chan error, 1)
	out := bufio.NewWriter(printed)
	go func() {
		err := writeCast(out, events)
		events.CloseWithError(cmp.Or(err, io.ErrClosedPipe)) // else what comes would wait for ever
		done <- err
	}()
	err := c.output(ctx, name, false, &shown, to, io.Discard)
	to.Close()
	castErr := <-done
	if err != nil {
		return errors.Join(err, out.Flush())
	}
	return errors.Join(castErr, out.Flush())
}

// idleLimit is how long a player waits at most where nothing happens, in seconds: a session may sleep for weeks.
const idleLimit = 2

// maxEventLine bounds a line of an event, in bytes.
const maxEventLine = 1 << 20

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

// writeCast writes events as an asciicast, version 3.
func writeCast(w io.Writer, events io.Reader) error {
	lines := bufio.NewScanner(events)
	lines.Buffer(make([]byte, 64<<10), maxEventLine)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	var last time.Time
	for lines.Scan() {
		var e attach.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("read an event: %w", err)
		}
		if last.IsZero() {
			head := castHeader{Version: 3, Term: castTTY{Cols: 80, Rows: 24}, Timestamp: e.Time.Unix(), IdleLimit: idleLimit}
			if e.Code == "r" {
				_, _ = fmt.Sscanf(e.Text, "%dx%d", &head.Term.Cols, &head.Term.Rows) // or what is usual
			}
			if err := enc.Encode(head); err != nil {
				return err
			}
			last = e.Time
		}
		code, text := castEvent(e)
		if code == "" {
			continue
		}
		after := max(e.Time.Sub(last), 0).Truncate(time.Microsecond)
		last = last.Add(after)
		if err := enc.Encode([]any{json.Number(fmt.Sprintf("%.6f", after.Seconds())), code, text}); err != nil {
			return err
		}
	}
	return lines.Err()
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
