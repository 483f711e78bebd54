package export

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/diapause/diapause/events/attach"
	emulator "github.com/diapause/diapause/events/screen"
)

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

	from   time.Time // what comes before isn't written, but played
	before *emulator.Playback
	played bool // something
}

func newCast(w io.Writer) *castWriter {
	out := &castWriter{enc: json.NewEncoder(w)}
	out.enc.SetEscapeHTML(false)
	return out
}

// Event implements Writer. Frames are output where a player couldn't know else what was shown.
func (w *castWriter) Event(e attach.Event) error {
	if e.Code == attach.CodeFrom {
		w.from, w.before = e.Time, emulator.NewPlayback()
		return nil
	}
	if w.before != nil && !e.Time.Before(w.from) {
		if err := w.shown(e.Time); err != nil {
			return err
		}
	}
	begins, frame := w.track.Event(e.At, e.Code, e.Data())
	if w.before != nil {
		w.before.Event(e.At, e.Code, e.Data())
		w.played = true
		return nil
	}
	var size string
	if begins {
		rows, cols, paint, _ := emulator.CutFrame(e.Data())
		size = fmt.Sprintf("%dx%d", cols, rows)
		e.Text, e.Base64 = "", paint
	}
	if w.last.IsZero() {
		if e.Code == "r" {
			size = e.Text
		}
		if err := w.begin(e.Time, size); err != nil {
			return err
		}
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

// begin writes the header.
func (w *castWriter) begin(at time.Time, size string) error {
	head := castHeader{Version: 3, Term: castTTY{Cols: 80, Rows: 24}, Timestamp: at.Unix(), IdleLimit: idleLimit}
	_, _ = fmt.Sscanf(size, "%dx%d", &head.Term.Cols, &head.Term.Rows) // or what is usual
	w.last = at
	return w.enc.Encode(head)
}

// maxPaint bounds what is written of what was shown at the beginning of a part, in bytes.
const maxPaint = 1 << 20

// shown writes what was shown before what comes now, if that is known.
func (w *castWriter) shown(at time.Time) error {
	is, known := w.before.Screen(), w.played && w.before.Known()
	w.before = nil
	paint := emulator.Frame(is, maxPaint)
	if !known || paint == nil {
		return nil
	}
	rows, cols := is.Size()
	size := fmt.Sprintf("%dx%d", cols, rows)
	if err := w.begin(at, size); err != nil {
		return err
	}
	if err := w.write(at, "r", size); err != nil {
		return err
	}
	return w.write(at, "o", strings.ToValidUTF8(string(paint), "\ufffd"))
}

// End implements Writer.
func (w *castWriter) End() error { return nil }

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
