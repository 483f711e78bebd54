package attach

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
)

func TestReadRequest(t *testing.T) {
	for name, c := range map[string]struct {
		kind    byte
		payload string
		op      string
	}{
		"a request":     {FrameRequest, `{"op":"exec","argv":["sh"]}`, OpExec},
		"another frame": {FrameStdin, "typed", ""},
		"no JSON":       {FrameRequest, "exec", ""},
	} {
		client, server := net.Pipe()
		go func() { _ = WriteFrame(client, c.kind, []byte(c.payload)) }()
		r, err := ReadRequest(server)
		if r.Op != c.op || (err == nil) != (c.op != "") {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		server.Close()
		client.Close()
	}
}

// What is written to a FrameWriter comes out of an InputReader, in frames that fit.
func TestFrameWriterAndInputReader(t *testing.T) {
	var b bytes.Buffer
	sent := strings.Repeat("x", MaxFrame) + "and more"
	if n, err := io.WriteString(FrameWriter{To: &b, Kind: FrameStdin}, sent); n != len(sent) || err != nil {
		t.Fatalf("%d bytes are written, %v", n, err)
	}
	if err := WriteFrame(&b, FrameResize, []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	if err := WriteFrame(&b, FrameStdinEOF, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(&InputReader{From: &b}); string(got) != sent || err != nil {
		t.Errorf("%d bytes are read, %v", len(got), err)
	}
	if _, err := io.ReadAll(&InputReader{From: &b}); err == nil {
		t.Error("an input that breaks off ends without an error")
	}
}

// Output that is fetched is what Replay answers with.
func TestOutputFetchedAndReplayed(t *testing.T) {
	replayed := func(kept []byte, tail int64) []byte {
		conn := shimEnd(t, func(c net.Conn) { _ = Replay(c, kept, tail) })
		again, err := FetchOutput(conn)
		if err != nil {
			t.Fatal(err)
		}
		return again
	}
	kept, err := FetchOutput(shimEnd(t, func(c net.Conn) {
		_ = WriteFrame(c, FrameStarted, nil)
		_ = WriteFrame(c, FrameStdout, []byte("out"))
		_ = WriteFrame(c, FrameStderr, []byte("err"))
		_ = WriteFrame(c, FrameExit, []byte(`{"code":0}`))
	}))
	if err != nil {
		t.Fatal(err)
	}
	if again := replayed(kept, -1); !bytes.Equal(again, kept) || !bytes.Contains(again, []byte("err")) {
		t.Errorf("%q becomes %q", kept, again)
	}
	for tail, want := range map[int64]string{0: "", 4: "terr", 6: "outerr", 1 << 62: "outerr"} {
		var got bytes.Buffer
		conn := shimEnd(t, func(c net.Conn) { _ = Replay(c, kept, tail) })
		if _, err := Do(conn, Request{Op: OpOutput}, Streams{Stdout: &got, Stderr: &got}); err != nil || got.String() != want {
			t.Errorf("its last %d bytes are %q, %v; want %q", tail, got.String(), err, want)
		}
	}
	if err := Replay(io.Discard, []byte("short"), -1); err == nil {
		t.Error("damaged output is replayed")
	}
}
