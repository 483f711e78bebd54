package attach

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/diapause/diapause/schemas"
)

func TestFrames(t *testing.T) {
	var b bytes.Buffer
	for _, payload := range [][]byte{nil, []byte("x"), bytes.Repeat([]byte("y"), beginning), bytes.Repeat([]byte("z"), beginning+1), bytes.Repeat([]byte("y"), MaxFrame)} {
		if err := WriteFrame(&b, FrameStdout, payload); err != nil {
			t.Fatal(err)
		}
		kind, got, err := ReadFrame(&b)
		if err != nil || kind != FrameStdout || !bytes.Equal(got, payload) {
			t.Errorf("a frame of %d bytes becomes %q of %d, %v", len(payload), kind, len(got), err)
		}
	}
	if _, _, err := ReadFrame(&b); !errors.Is(err, io.EOF) {
		t.Errorf("after the last frame comes %v", err)
	}
	if err := WriteFrame(&b, FrameStdout, make([]byte, MaxFrame+1)); err == nil {
		t.Error("a frame that is too long is written")
	}
}

func FuzzReadFrame(f *testing.F) {
	f.Add([]byte{'o', 0, 0, 0, 1, 'x'})
	f.Add([]byte{'o', 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{'R', 0, 4, 0, 0, '{'})
	f.Add(append([]byte{'i', 0, 0, 0x80, 1}, make([]byte, beginning+1)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		kind, payload, err := ReadFrame(bytes.NewReader(b))
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := WriteFrame(&again, kind, payload); err != nil || !bytes.HasPrefix(b, again.Bytes()) {
			t.Errorf("%x is read as a frame that is written as %x, %v", b, again.Bytes(), err)
		}
	})
}

// shimEnd plays the shim's part for a client.
func shimEnd(t *testing.T, play func(c net.Conn)) net.Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer ours.Close()
		if kind, _, err := ReadFrame(ours); err != nil || kind != FrameRequest {
			t.Errorf("the client begins with %q, %v", kind, err)
			return
		}
		play(ours)
	}()
	t.Cleanup(func() { theirs.Close(); <-done })
	return theirs
}

func TestClient(t *testing.T) {
	var out, errs bytes.Buffer
	conn := shimEnd(t, func(c net.Conn) {
		_ = WriteFrame(c, FrameStarted, nil)
		kind, in, err := ReadFrame(c)
		if err != nil || kind != FrameStdin || string(in) != "typed" {
			t.Errorf("the client sends %q %q, %v", kind, in, err)
		}
		if kind, _, err := ReadFrame(c); err != nil || kind != FrameStdinEOF {
			t.Errorf("the client ends its input with %q, %v", kind, err)
		}
		_ = WriteFrame(c, FrameStdout, []byte("out"))
		_ = WriteFrame(c, FrameStderr, []byte("err"))
		_ = WriteJSON(c, FrameExit, schemas.ExitStatus{Code: 7})
	})
	exit, err := Do(conn, Request{Op: OpExec}, Streams{Stdin: bytes.NewReader([]byte("typed")), Stdout: &out, Stderr: &errs})
	if err != nil || exit.Code != 7 || out.String() != "out" || errs.String() != "err" {
		t.Errorf("the client gets %+v, %v, %q, %q", exit, err, &out, &errs)
	}
}

func TestClientHearsWhy(t *testing.T) {
	conn := shimEnd(t, func(c net.Conn) { _ = WriteFrame(c, FrameError, []byte("no such thing")) })
	var why RemoteError
	if _, err := Do(conn, Request{Op: OpExec}, Streams{}); !errors.As(err, &why) || why != "no such thing" {
		t.Errorf("the client hears %v", err)
	}
	conn = shimEnd(t, func(c net.Conn) { _ = WriteFrame(c, FrameStarted, nil) })
	if _, err := Do(conn, Request{Op: OpExec}, Streams{}); !errors.Is(err, ErrLost) {
		t.Errorf("a client whose session goes hears %v", err)
	}
}
