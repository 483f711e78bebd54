package attach

import (
	"context"
	"fmt"
	"io"
	"net"

	"github.com/diapause/diapause/events/attach/backlog"
	"github.com/diapause/diapause/schemas"
)

// OutputEntry is where an image has the main command's output, in the form that
// Replay reads.
const OutputEntry = "meta/output.0"

// OutputKept is how much of a command's output is kept in memory, and so in an
// image, in bytes.
const OutputKept = 1 << 20

// FetchOutput reads what is kept of the main command's output over a connection
// that a driver's Dial gave, in the form that Replay reads. It closes conn.
func FetchOutput(conn net.Conn) ([]byte, error) {
	log := backlog.New(OutputKept)
	_, err := Do(conn, Request{Op: OpOutput, Tail: -1}, Streams{
		Stdout: appender{log, backlog.Out}, Stderr: appender{log, backlog.Err},
	})
	if err != nil {
		return nil, fmt.Errorf("fetch the output: %w", err)
	}
	return log.Encode(), nil
}

type appender struct {
	log    *backlog.Log
	stream backlog.Stream
}

func (a appender) Write(p []byte) (int, error) {
	a.log.Append(a.stream, p)
	return len(p), nil
}

// Replay answers an output request with output that was kept: so many of its last bytes, or all if tail is negative.
func Replay(w io.Writer, kept []byte, tail int64) error {
	log, err := backlog.Decode(kept, OutputKept)
	if err != nil {
		return err
	}
	log.End()
	if err := WriteFrame(w, FrameStarted, nil); err != nil {
		return err
	}
	at, end := log.Span()
	if tail >= 0 {
		at = log.Tail(tail)
	}
	for at < end {
		s, p, next, err := log.Next(context.Background(), at)
		if err != nil {
			return err
		}
		if err := WriteOutput(w, s, p); err != nil {
			return err
		}
		at = next
	}
	return WriteJSON(w, FrameExit, schemas.ExitStatus{})
}
