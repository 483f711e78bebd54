package attach

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/diapause/diapause/schemas"
)

// Streams are what a client connects to a command. A nil writer discards, a nil Stdin
// sends nothing.
type Streams struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// Resized delivers new sizes of the client's window, until the call ends.
	Resized <-chan Size
}

// RemoteError is the text of a FrameError: why the session's end gave up.
type RemoteError string

func (e RemoteError) Error() string { return string(e) }

// ErrLost says that the connection ended before the command did: the session was
// suspended, or its host failed. The command itself may run on.
var ErrLost = errors.New("the connection to the session ended")

// Do sends r over conn, which is a connection that a driver's Dial gave or a tunnel to
// one, and carries the streams until the command, the copy or the output ends. It returns
// how the command ended, and closes conn. Stdin may still be read from when Do returns;
// what was read last is lost.
func Do(conn net.Conn, r Request, s Streams) (schemas.ExitStatus, error) {
	defer conn.Close()
	w := &frameSender{conn: conn}
	b, err := json.Marshal(r)
	if err != nil {
		return schemas.ExitStatus{}, fmt.Errorf("encode the request: %w", err)
	}
	if err := w.send(FrameRequest, b); err != nil {
		return schemas.ExitStatus{}, err
	}
	done := make(chan struct{})
	defer close(done)
	started := make(chan struct{})
	if s.Stdin != nil {
		go w.sendInput(s.Stdin, started, done)
	}
	if s.Resized != nil {
		go w.sendSizes(s.Resized, done)
	}
	return receive(conn, s, started)
}

// frameSender serialises the frames of several goroutines.
type frameSender struct {
	mu   sync.Mutex
	conn net.Conn
}

func (w *frameSender) send(kind byte, payload []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return WriteFrame(w.conn, kind, payload)
}

func (w *frameSender) sendInput(r io.Reader, started, done <-chan struct{}) {
	select {
	case <-started:
	case <-done:
		return
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 && w.send(FrameStdin, buf[:n]) != nil {
			return // the connection ended, as receive sees too
		}
		if err != nil {
			_ = w.send(FrameStdinEOF, nil)
			return
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

func (w *frameSender) sendSizes(sizes <-chan Size, done <-chan struct{}) {
	for {
		select {
		case size, ok := <-sizes:
			if !ok {
				return
			}
			if b, err := json.Marshal(size); err != nil || w.send(FrameResize, b) != nil {
				return
			}
		case <-done:
			return
		}
	}
}

func receive(conn net.Conn, s Streams, started chan<- struct{}) (schemas.ExitStatus, error) {
	var exit schemas.ExitStatus
	for {
		kind, payload, err := ReadFrame(conn)
		if err != nil {
			return exit, ErrLost
		}
		switch kind {
		case FrameStarted:
			close(started)
		case FrameStdout:
			err = write(s.Stdout, payload)
		case FrameStderr:
			err = write(s.Stderr, payload)
		case FrameExit:
			err = json.Unmarshal(payload, &exit)
			return exit, err
		case FrameError:
			return exit, RemoteError(payload)
		}
		if err != nil {
			return exit, fmt.Errorf("pass on output: %w", err)
		}
	}
}

func write(w io.Writer, b []byte) error {
	if w == nil {
		return nil
	}
	_, err := w.Write(b)
	return err
}
