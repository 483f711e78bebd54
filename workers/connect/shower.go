package connect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/attach/backlog"
	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
)

// shower sends output to a client, with the time of each line if it wants that.
type shower struct {
	to     io.Writer
	times  bool
	within bool // the last line goes on
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

// stamp puts the time before each line that begins in a piece.
func (w *shower) stamp(b []byte, at time.Time) []byte {
	var out []byte
	for line := range bytes.Lines(b) {
		if !w.within {
			out = at.UTC().AppendFormat(out, timeFormat)
		}
		out = append(out, line...)
		w.within = line[len(line)-1] != '\n'
	}
	return out
}

// errSuspended: the session is gone from this host before its output ended.
var errSuspended = errors.New("the session was suspended")

// follow sends what a session sends that was asked for its output from a position on, and gives how it ended.
func (w *shower) follow(session io.Reader, at int64) (exit schemas.ExitStatus, err error) {
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
			if err == nil && at > 0 && from.At > at {
				err = w.missing(from.At - at)
			}
		case attach.FrameStdout:
			err = w.write(backlog.Out, payload, time.Now())
		case attach.FrameStderr:
			err = w.write(backlog.Err, payload, time.Now())
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
