package attach

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/diapause/diapause/events/attach/backlog"
)

// requestWait bounds the wait for a client's first frame.
const requestWait = 10 * time.Second

// ReadRequest reads the request that a client's connection begins with.
func ReadRequest(c net.Conn) (Request, error) {
	var r Request
	if err := c.SetReadDeadline(time.Now().Add(requestWait)); err != nil {
		return r, err
	}
	kind, payload, err := ReadFrame(c)
	if err != nil {
		return r, fmt.Errorf("read the request: %w", err)
	}
	if kind != FrameRequest {
		return r, fmt.Errorf("read the request: the first frame is %q", kind)
	}
	if err := json.Unmarshal(payload, &r); err != nil {
		return r, fmt.Errorf("read the request: %w", err)
	}
	return r, c.SetReadDeadline(time.Time{})
}

// WriteError ends the connection with the reason for a person.
func WriteError(w io.Writer, text string) error { return WriteFrame(w, FrameError, []byte(text)) }

// WriteOutput writes a piece of a command's output, as backlog.Log.Next gives it.
func WriteOutput(w io.Writer, s backlog.Stream, piece []byte) error {
	if s == backlog.Err {
		return WriteFrame(w, FrameStderr, piece)
	}
	return WriteFrame(w, FrameStdout, piece)
}

// FrameWriter sends what is written to it as frames of one kind.
type FrameWriter struct {
	To   io.Writer
	Kind byte
}

func (f FrameWriter) Write(p []byte) (int, error) {
	done := 0
	for len(p) > done {
		part := p[done:min(len(p), done+MaxFrame)]
		if err := WriteFrame(f.To, f.Kind, part); err != nil {
			return done, err
		}
		done += len(part)
	}
	return done, nil
}

// InputReader reads what a client sends as standard input, until FrameStdinEOF.
// Frames of other kinds are dropped.
type InputReader struct {
	From io.Reader
	left []byte
}

func (i *InputReader) Read(p []byte) (int, error) {
	for len(i.left) == 0 {
		kind, payload, err := ReadFrame(i.From)
		switch {
		case err != nil:
			return 0, fmt.Errorf("read the client's input: %w", err)
		case kind == FrameStdinEOF:
			return 0, io.EOF
		case kind == FrameStdin:
			i.left = payload
		}
	}
	n := copy(p, i.left)
	i.left = i.left[n:]
	return n, nil
}
