package connect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/attach/backlog"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
)

// shower sends output to a client, with the time of each line if it wants that.
type shower struct {
	to     io.Writer
	times  bool
	clock  func() time.Time // when what is kept beside a recording was printed
	left   int64            // bytes of the part that is shown
	within bool             // the last line goes on
}

// event sends an event of a recording, if it is output.
func (w *shower) event(e recording.Event) error {
	switch e.Code {
	case recording.Output:
		return w.write(backlog.Out, e.Data, e.Time)
	case recording.Errors:
		return w.write(backlog.Err, e.Data, e.Time)
	case recording.Gap:
		return w.missing(e.Length())
	}
	return nil
}

func (w *shower) missing(n int64) error {
	return w.note(fmt.Sprintf("%d bytes of output were not recorded", n))
}

// whatIsMissing tells the client what can't be read of a recording.
func (w *shower) whatIsMissing(of Recording) error {
	if why := of.Why(); why != nil {
		text := "the beginning of the recording isn't kept"
		if !errors.Is(why, objectstore.ErrNotFound) {
			text = fmt.Sprintf("the recording can't be read from its beginning: %v", why)
		}
		if err := w.note(text); err != nil {
			return err
		}
	}
	if wrong := of.After(); wrong != nil {
		return w.note(fmt.Sprintf("the end of the recording can't be read: %v", wrong))
	}
	return nil
}

// note tells the client something that the session didn't print.
func (w *shower) note(text string) error {
	return attach.WriteFrame(w.to, attach.FrameStderr, []byte("diapause: "+text+"\n"))
}

// write sends a piece of output that came at a time.
func (w *shower) write(s backlog.Stream, b []byte, at time.Time) error {
	if w.times {
		b = w.stamp(b, at)
	}
	for part := range slices.Chunk(b, attach.MaxFrame) {
		if err := attach.WriteOutput(w.to, s, part); err != nil {
			return err
		}
	}
	return nil
}

// timeFormat is that of the time before a line: of one length, so that lines stay below each other.
const timeFormat = "2006-01-02T15:04:05.000Z "

// unknown is the time of what was printed while nothing was recorded.
func unknown() time.Time { return time.Time{} }

// noTime stands for that before a line.
var noTime = "-" + strings.Repeat(" ", len(timeFormat)-1)

// stamp puts the time before each line that begins in a piece.
func (w *shower) stamp(b []byte, at time.Time) []byte {
	var out []byte
	for line := range bytes.Lines(b) {
		switch {
		case w.within:
		case at.IsZero():
			out = append(out, noTime...)
		default:
			out = at.UTC().AppendFormat(out, timeFormat)
		}
		out = append(out, line...)
		w.within = line[len(line)-1] != '\n'
	}
	return out
}

// errSuspended: the session is gone from this host before its output ended.
var errSuspended = errors.New("the session was suspended")

// begin says that a part of the output comes, of which what is kept begins at a position.
func (w *shower) begin(of span, at int64) error {
	w.left = of.to - max(of.from, at)
	if missing := at - of.from; of.from > 0 && missing > 0 {
		return w.missing(missing)
	}
	return nil
}

// part sends a piece of that part, and no more.
func (w *shower) part(s backlog.Stream, b []byte) error {
	b = b[:max(min(int64(len(b)), w.left), 0)]
	w.left -= int64(len(b))
	return w.write(s, b, w.clock())
}

// follow sends what a session sends that was asked for a part of its output, and gives how it ended.
func (w *shower) follow(session io.Reader, of span) (exit schemas.ExitStatus, err error) {
	w.left = of.to - of.from // of a session that doesn't say where it begins
	for {
		kind, payload, err := attach.ReadFrame(session)
		if err != nil {
			return exit, errSuspended
		}
		switch kind {
		case attach.FrameStarted:
			var from attach.Taken
			if len(payload) > 0 {
				err = json.Unmarshal(payload, &from)
			}
			if err == nil {
				err = w.begin(of, max(from.At, of.from))
			}
		case attach.FrameStdout:
			err = w.part(backlog.Out, payload)
		case attach.FrameStderr:
			err = w.part(backlog.Err, payload)
		case attach.FrameExit:
			return exit, json.Unmarshal(payload, &exit)
		case attach.FrameError:
			err = errors.New(string(payload))
		}
		if err != nil {
			return exit, err
		}
	}
}
