package shim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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

// A shim of an older version tells nothing: what was sent to it is its own.
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

// Of two connections of one typist the later one counts, and nothing is taken twice.
func TestTypistsLastConnectionCounts(t *testing.T) {
	var all typists
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	term := testTerminal(t)
	if taken, err := all.come("me", 0, false, a); taken != 0 || err != nil {
		t.Errorf("%d bytes are taken of one who never came, %v", taken, err)
	}
	if n, err := all.take("me", a, term.masterFD, []byte("ab\n")); n != 3 || err != nil {
		t.Errorf("%d bytes taken, %v", n, err)
	}
	if taken, err := all.come("me", 0, true, b); taken != 3 || err != nil {
		t.Errorf("%d bytes are taken, %v", taken, err)
	}
	if _, err := all.take("me", a, term.masterFD, []byte("c")); !errors.Is(err, errSuperseded) {
		t.Errorf("from the old connection: %v", err)
	}
	var again typists
	again.load(all.save())
	if taken, err := again.come("me", 5, true, a); taken != 5 || err != nil {
		t.Errorf("after a restore %d are taken, he has forgotten 5: %v", taken, err)
	}
}

// However many type at a time, none takes another's place: one too many is refused. Who
// is away makes room, the longest away first, and types nothing twice afterwards.
func TestManyTypists(t *testing.T) {
	var all typists
	term := testTerminal(t)
	conns := make([]net.Conn, typistsKept+2)
	for i := range conns {
		var far net.Conn
		conns[i], far = net.Pipe()
		defer conns[i].Close()
		defer far.Close()
	}
	come := func(i int, again bool) error {
		_, err := all.come(fmt.Sprint("typist", i), 0, again, conns[i])
		return err
	}
	types := func(i int) error {
		_, err := all.take(fmt.Sprint("typist", i), conns[i], term.masterFD, []byte("x"))
		return err
	}
	for i := range typistsKept {
		if err := come(i, false); err != nil {
			t.Fatal(err)
		}
	}
	const late = typistsKept
	if err := come(late, false); !errors.Is(err, errCrowded) {
		t.Errorf("one too many comes: %v", err)
	}
	for i := range typistsKept {
		if err := types(i); err != nil {
			t.Fatalf("typist %d, of as many as there may be: %v", i, err)
		}
	}
	all.leave("typist9", conns[9])
	all.leave("typist4", conns[4])
	all.leave("typist5", conns[late]) // an old connection of one that has come again
	if err := come(late, false); err != nil {
		t.Errorf("another has gone: %v", err)
	}
	if err := come(4, true); err != nil {
		t.Errorf("one that was away for less long than another: %v", err)
	}
	var again typists
	again.load(all.save())
	all.load(again.save())
	if err := come(9, true); !errors.Is(err, errForgotten) {
		t.Errorf("one that was forgotten: %v; what it has typed would come twice", err)
	}
	if err := types(9); !errors.Is(err, errSuperseded) {
		t.Errorf("one that was refused types: %v", err)
	}
	if err := come(typistsKept+1, true); !errors.Is(err, errForgotten) {
		t.Errorf("one that may have been forgotten: %v", err)
	}
	if err := come(typistsKept+1, false); err != nil || len(all.all) != typistsKept {
		t.Errorf("a new one comes after a restore, when nobody is there: %v, %d are remembered", err, len(all.all))
	}
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
