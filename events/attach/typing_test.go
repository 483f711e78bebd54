package attach

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// far is the session's end of a typist's connection.
type far struct {
	t    *testing.T
	conn net.Conn
	done chan error
	req  Request
}

func attached(t *testing.T, typing *Typing, out io.Writer) *far {
	t.Helper()
	near, conn := net.Pipe()
	f := &far{t: t, conn: conn, done: make(chan error, 1)}
	go func() {
		_, err := typing.Attach(near, Request{}, Streams{Stdout: out})
		f.done <- err
	}()
	if err := json.Unmarshal(f.read(FrameRequest), &f.req); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *far) read(kind byte) []byte {
	f.t.Helper()
	if err := f.conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		f.t.Fatal(err)
	}
	got, payload, err := ReadFrame(f.conn)
	if err != nil || got != kind {
		f.t.Fatalf("frame %q, %v; want %q", got, err, kind)
	}
	return payload
}

func (f *far) say(kind byte, payload []byte) {
	f.t.Helper()
	if err := WriteFrame(f.conn, kind, payload); err != nil {
		f.t.Fatal(err)
	}
}

func (f *far) lose() {
	f.t.Helper()
	f.conn.Close()
	if err := <-f.done; !errors.Is(err, ErrLost) {
		f.t.Errorf("it ends with %v", err)
	}
}

func told(taken, at int64) []byte {
	b, err := json.Marshal(Taken{Taken: taken, At: at})
	if err != nil {
		panic(err)
	}
	return b
}

// What the session has not taken when a connection ends is sent on the next, from there on.
func TestTypingOverTwoConnections(t *testing.T) {
	keys, typed := io.Pipe()
	typing := NewTyping("me", keys)
	var out bytes.Buffer
	f := attached(t, typing, &out)
	if f.req.Typist != "me" || f.req.From != 0 || f.req.Seen != 0 || f.req.Again {
		t.Errorf("the request is %+v", f.req)
	}
	f.say(FrameStarted, told(0, 40))
	go func() { _, _ = typed.Write([]byte("abcdef")) }()
	if got := f.read(FrameStdin); string(got) != "abcdef" {
		t.Errorf("it sends %q", got)
	}
	f.say(FrameTaken, told(2, 0))
	f.say(FrameStdout, []byte("shown"))
	f.lose()
	if typing.Owed() != 4 {
		t.Errorf("%d bytes are owed, want 4", typing.Owed())
	}
	f = attached(t, typing, &out)
	if f.req.From != 2 || f.req.Seen != 45 || !f.req.Again {
		t.Errorf("the second request is %+v", f.req)
	}
	f.say(FrameStarted, told(3, 45)) // one more had been taken
	if got := f.read(FrameStdin); string(got) != "def" {
		t.Errorf("it sends %q again", got)
	}
	f.lose()
	if out.String() != "shown" {
		t.Errorf("it showed %q", out.String())
	}
}

// A shim of an older version doesn't say what it has taken: what was sent to it counts.
func TestTypingToAnOlderShim(t *testing.T) {
	keys, typed := io.Pipe()
	typing := NewTyping("me", keys)
	f := attached(t, typing, nil)
	f.say(FrameStarted, nil)
	go func() { _, _ = typed.Write([]byte("abc")) }()
	if got := f.read(FrameStdin); string(got) != "abc" {
		t.Errorf("it sends %q", got)
	}
	for end := time.Now().Add(30 * time.Second); typing.Owed() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is owed what was sent")
		}
	}
	f.lose()
}

// A connection that is slow to notice that it is over leaves what a later one has sent alone.
func TestTypingAfterALaterConnection(t *testing.T) {
	typing := &Typing{name: "me", changed: make(chan struct{}), owed: []byte("abc")}
	near, conn := net.Pipe()
	defer near.Close()
	over := make(chan struct{})
	go func() {
		defer close(over)
		typing.send(&frameSender{conn: near}, make(chan struct{}))
	}()
	f := &far{t: t, conn: conn}
	var first [1]byte
	if _, err := io.ReadFull(conn, first[:]); err != nil { // it is in the middle of sending
		t.Fatal(err)
	}
	typing.mu.Lock()
	typing.owed = append(typing.owed, "def"...)
	typing.mu.Unlock()
	if err := typing.take(6); err != nil { // as was said on a later one
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, f.conn) }()
	select {
	case <-over:
	case <-time.After(30 * time.Second):
		t.Error("it goes on")
	}
}
