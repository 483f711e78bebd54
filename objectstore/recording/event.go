package recording

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Code is the kind of an event. Those of asciicast are as there; what a reader doesn't know it
// passes over.
type Code string

// The codes of events.
const (
	Output Code = "o" // what the terminal showed
	Errors Code = "e" // what Diapause itself wrote beside it
	Input  Code = "i" // what was typed
	Resize Code = "r" // COLSxROWS
	Mark   Code = "m"
	Frame  Code = "k" // all that the terminal shows: COLSxROWS, a newline and what paints it
	Exit   Code = "x" // the status with which the session ended
	Gap    Code = "g" // bytes of output that were not recorded
)

// base64Suffix is added to the code of an event whose data is no UTF-8.
const base64Suffix = "64"

// Event is one entry of a recording.
type Event struct {
	Time time.Time
	Code Code
	Data []byte
	At   int64 // position in the output where it is, in bytes
}

// Length is how far an event moves the position in the output.
func (e Event) Length() int64 {
	switch e.Code {
	case Output, Errors:
		return int64(len(e.Data))
	case Gap:
		n, err := strconv.ParseInt(string(e.Data), 10, 64)
		if err == nil && n > 0 {
			return n
		}
	}
	return 0
}

// MaxData bounds the data of one line in bytes, MaxLine a line.
const (
	MaxData = 64 << 10
	MaxLine = 1 << 20
)

// appendLine appends the line of an event that comes so long after the one before.
func appendLine(b *bytes.Buffer, after time.Duration, code Code, data []byte) error {
	us := max(after.Microseconds(), 0)
	fmt.Fprintf(b, "[%d.%06d,", us/1e6, us%1e6)
	text := string(data)
	if !utf8.Valid(data) {
		code, text = code+base64Suffix, base64.StdEncoding.EncodeToString(data)
	}
	fmt.Fprintf(b, "%q,", string(code))
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(text); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1) // the line end that Encode adds
	b.WriteString("]\n")
	return nil
}

// maxAfter bounds the time between two events: about 30 years.
const maxAfter = 1e9

// parseLine reads a line that appendLine wrote. ok is false for an event of an unknown form.
func parseLine(line []byte) (after time.Duration, e Event, ok bool, err error) {
	after, code, text, own := parseOwn(line)
	if !own {
		return parseJSON(line)
	}
	e, err = eventOf(code, text)
	return after, e, err == nil, err
}

// parseJSON is parseLine for any JSON.
func parseJSON(line []byte) (after time.Duration, e Event, ok bool, err error) {
	var parts []json.RawMessage
	if err := json.Unmarshal(line, &parts); err != nil {
		return 0, e, false, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if len(parts) < 3 {
		return 0, e, false, fmt.Errorf("%w: a line has %d parts", ErrCorrupt, len(parts))
	}
	var seconds float64
	var code string
	if err := json.Unmarshal(parts[0], &seconds); err != nil || seconds < 0 || seconds > maxAfter {
		return 0, e, false, fmt.Errorf("%w: %.40q is no interval", ErrCorrupt, parts[0])
	}
	if err := json.Unmarshal(parts[1], &code); err != nil {
		return 0, e, false, fmt.Errorf("%w: %.40q is no code", ErrCorrupt, parts[1])
	}
	after = time.Duration(seconds*1e6+0.5) * time.Microsecond
	var text string
	if json.Unmarshal(parts[2], &text) != nil {
		return after, e, false, nil // of a later version
	}
	e, err = eventOf(code, []byte(text))
	return after, e, err == nil, err
}

// eventOf is an event with the code and the text of its line.
func eventOf(code string, text []byte) (e Event, err error) {
	e = Event{Code: Code(code), Data: text}
	if plain, found := strings.CutSuffix(code, base64Suffix); found {
		e.Code = Code(plain)
		if e.Data, err = base64.StdEncoding.Strict().DecodeString(string(text)); err != nil {
			return e, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
	}
	return e, nil
}

// whole gives how much of b ends with a whole character, if what follows could be the beginning of one.
func whole(b []byte) int {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return len(b) - i
			}
			break
		}
	}
	return len(b)
}
