package asciicast

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// MaxLine bounds a line, in bytes.
const MaxLine = 16 << 20

// maxSeconds bounds the time of a recording, and of each event: about 30 years.
const maxSeconds = 1e9

// The kinds of events.
const (
	Output = "o"
	Input  = "i"
	Resize = "r" // COLSxROWS
	Marker = "m"
	Exit   = "x" // the status, in digits
)

var kinds = []string{Output, Input, Resize, Marker, Exit}

// Error says what of a file is no asciicast.
type Error struct {
	Line int // from 1
	Text string
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Text) }

// Header is what a recording says of itself.
type Header struct {
	Version    int
	Cols, Rows int
	Began      time.Time // zero if it doesn't say
	Title      string
}

// Event is an entry of a recording.
type Event struct {
	After time.Duration // since the beginning; never less than that of the event before
	Kind  string
	Data  string // valid UTF-8
}

// Reader reads a recording. It is for one goroutine.
type Reader struct {
	in     *bufio.Reader
	line   int
	text   []byte // of the line
	header Header
	after  time.Duration
}

// NewReader reads the header of a recording. An error that isn't an Error is that of r.
func NewReader(r io.Reader) (*Reader, error) {
	out := &Reader{in: bufio.NewReaderSize(r, 64<<10)}
	if mark, err := out.in.Peek(len(byteOrder)); err == nil && string(mark) == byteOrder {
		_, _ = out.in.Discard(len(byteOrder)) // they are there
	}
	text, err := out.next()
	if errors.Is(err, io.EOF) {
		return nil, &Error{1, "the file is empty"}
	}
	if err != nil {
		return nil, err
	}
	return out, out.head(text)
}

// byteOrder is what some editors put before UTF-8.
const byteOrder = "\xef\xbb\xbf"

// Header gives the header.
func (r *Reader) Header() Header { return r.header }

// head reads the header.
func (r *Reader) head(text []byte) error {
	var h struct {
		Version       int
		Width, Height int
		Term          struct{ Cols, Rows int }
		Timestamp     *float64
		Title         string
	}
	err := json.Unmarshal(text, &h)
	var mistyped *json.UnmarshalTypeError
	switch {
	case err != nil && (!errors.As(err, &mistyped) || mistyped.Field == ""):
		return r.wrong("no header of an asciicast: want a line of JSON")
	case err != nil:
		return r.wrong("no header of an asciicast: %.40q has another type", mistyped.Field)
	case h.Version == 1:
		return r.wrong("version 1 of asciicast: `asciinema convert` makes another of it")
	case h.Version != 2 && h.Version != 3:
		return r.wrong("version %d of asciicast: want 2 or 3", h.Version)
	}
	r.header = Header{Version: h.Version, Cols: h.Term.Cols, Rows: h.Term.Rows, Title: h.Title}
	if h.Version == 2 {
		r.header.Cols, r.header.Rows = h.Width, h.Height
	}
	if !fits(r.header.Cols) || !fits(r.header.Rows) {
		return r.wrong("a terminal of %d columns and %d rows", r.header.Cols, r.header.Rows)
	}
	if h.Timestamp != nil {
		if *h.Timestamp < 0 || *h.Timestamp > maxTimestamp {
			return r.wrong("a timestamp of %g", *h.Timestamp)
		}
		r.header.Began = time.Unix(int64(*h.Timestamp), 0).UTC()
	}
	return nil
}

// maxTimestamp is in the year 2286: with maxSeconds it still has four digits.
const maxTimestamp = 1e10

func fits(n int) bool { return n > 0 && n <= math.MaxUint16 }

// Next gives the next event of a known kind, io.EOF after the last.
func (r *Reader) Next() (Event, error) {
	for {
		text, err := r.next()
		if err != nil {
			return Event{}, err
		}
		e, known, err := r.event(text)
		if known || err != nil {
			return e, err
		}
	}
}

// event reads an event. known is false for a kind that isn't known: its time counts.
func (r *Reader) event(text []byte) (e Event, known bool, err error) {
	var parts [3]json.RawMessage // what follows isn't kept
	if err := json.Unmarshal(text, &parts); err != nil || parts[2] == nil {
		return e, false, r.wrong("no event of an asciicast: want [TIME, KIND, DATA]")
	}
	var seconds float64
	if err := json.Unmarshal(parts[0], &seconds); err != nil || seconds > maxSeconds {
		return e, false, r.wrong("%.40q is no time", parts[0])
	}
	if err := json.Unmarshal(parts[1], &e.Kind); err != nil {
		return e, false, r.wrong("%.40q is no kind of event", parts[1])
	}
	at := time.Duration(math.Round(max(seconds, -1)*1e6)) * time.Microsecond
	switch {
	case r.header.Version == 2:
		r.after = max(r.after, at)
	case at < 0:
		return e, false, r.wrong("%.40q is no time since the event before", parts[0])
	default:
		r.after += at
	}
	if r.after > maxSeconds*time.Second {
		return e, false, r.wrong("the recording is longer than 30 years")
	}
	if e.After = r.after; !slices.Contains(kinds, e.Kind) {
		return e, false, nil
	}
	if err := json.Unmarshal(parts[2], &e.Data); err != nil || string(parts[2]) == "null" {
		return e, false, r.wrong("the data of the event is no text")
	}
	return e, true, nil
}

func (r *Reader) wrong(format string, args ...any) error {
	return &Error{r.line, fmt.Sprintf(format, args...)}
}

// next gives the next line that has something in it and is no comment.
func (r *Reader) next() ([]byte, error) {
	for {
		text, err := r.nextLine()
		if err != nil {
			return nil, err
		}
		if text = bytes.TrimSpace(text); len(text) > 0 && text[0] != '#' {
			return text, nil
		}
	}
}

// nextLine gives the next line. It is valid until the next call.
func (r *Reader) nextLine() ([]byte, error) {
	r.line++
	if cap(r.text) > 1<<20 { // of a long line
		r.text = nil
	}
	r.text = r.text[:0]
	for {
		part, err := r.in.ReadSlice('\n')
		if len(r.text)+len(part) > MaxLine {
			return nil, r.wrong("it has more than %d MiB", MaxLine>>20)
		}
		r.text = append(r.text, part...)
		switch {
		case err == nil:
			return r.text, nil
		case errors.Is(err, io.EOF) && len(r.text) > 0:
			return r.text, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}
