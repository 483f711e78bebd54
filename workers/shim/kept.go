package shim

import (
	"context"
	"fmt"
	"io"
	"net"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/shim/backlog"
)

// OutputEntry is where an image has the main command's output, in the form that
// Replay reads.
const OutputEntry = "meta/output.0"

// ReadRequest reads the request that a client's connection begins with.
func ReadRequest(c net.Conn) (Request, error) { return readRequest(c) }

// WriteError tells the client in one last frame why there is nothing more.
func WriteError(w io.Writer, text string) error { return WriteFrame(w, FrameError, []byte(text)) }

// FetchOutput reads what is kept of the main command's output over a connection
// that a driver's Dial gave, in the form that Replay reads. It closes conn.
func FetchOutput(conn net.Conn) ([]byte, error) {
	log := backlog.New(outputKept)
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

// Replay answers an output request with output that was kept.
func Replay(w io.Writer, kept []byte) error {
	log, err := backlog.Decode(kept, outputKept)
	if err != nil {
		return err
	}
	log.End()
	if err := WriteFrame(w, FrameStarted, nil); err != nil {
		return err
	}
	for at, end := log.Span(); at < end; {
		s, p, next, err := log.Next(context.Background(), at)
		if err != nil {
			return err
		}
		kind := FrameStdout
		if s == backlog.Err {
			kind = FrameStderr
		}
		if err := WriteFrame(w, kind, p); err != nil {
			return err
		}
		at = next
	}
	return writeJSON(w, FrameExit, schemas.ExitStatus{})
}
