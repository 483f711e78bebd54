package attach

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// portPair gives a connection to a port and the end of what listens there.
func portPair(t *testing.T, whole bool) (*PortConn, *net.TCPConn) {
	t.Helper()
	inner, server := tcpPair(t)
	ours, theirs := tcpPair(t)
	served := make(chan error, 1)
	go func() {
		_, err := ReadRequest(theirs)
		if err == nil {
			err = ServeForward(theirs, inner, func() bool { return whole })
		}
		theirs.Close()
		served <- err
	}()
	c, err := DialPort(ours, 8080, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		server.Close()
		<-served
	})
	return c, server
}

// What is written arrives, more than a frame too, and the end of one direction leaves the other open.
func TestPort(t *testing.T) {
	c, server := portPair(t, true)
	question := bytes.Repeat([]byte("question"), 100_000)
	wrote := make(chan error, 1)
	go func() {
		_, err := c.Write(question)
		wrote <- errors.Join(err, c.CloseWrite())
	}()
	got, err := io.ReadAll(server)
	if err != nil || !bytes.Equal(got, question) || <-wrote != nil {
		t.Fatalf("%d bytes arrive, %v, want %d", len(got), err, len(question))
	}
	if _, err := c.Write([]byte("more")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a write after the end gives %v", err)
	}
	if _, err := server.Write(question); err != nil {
		t.Fatal(err)
	}
	server.Close()
	if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, question) {
		t.Errorf("%d bytes come back, %v, want %d", len(got), err, len(question))
	}
}

// A session that is killed doesn't look as if it had sent all.
func TestPortReset(t *testing.T) {
	c, server := portPair(t, false)
	if _, err := server.Write([]byte("half")); err != nil {
		t.Fatal(err)
	}
	server.Close()
	if got, err := io.ReadAll(c); !errors.Is(err, ErrReset) || string(got) != "half" {
		t.Errorf("it reads %q, %v, want a reset", got, err)
	}
}

// A close is an end to the session, and doesn't wait for a session that reads nothing.
func TestPortClose(t *testing.T) {
	c, server := portPair(t, true)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Read(make([]byte, 1)); err == nil {
		t.Error("the session's end reads on after the close")
	}
	c, _ = portPair(t, true)
	if err := c.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	for err := error(nil); err == nil; {
		_, err = c.Write(make([]byte, 1<<20))
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// A port where nothing listens is told apart from a session that isn't there.
func TestPortRefused(t *testing.T) {
	for want, answer := range map[error]func(net.Conn) error{
		RefusedError("nothing listens"): func(c net.Conn) error { return WriteRefused(c, "nothing listens") },
		RemoteError("it is suspended"):  func(c net.Conn) error { return WriteError(c, "it is suspended") },
		ErrLost:                         func(c net.Conn) error { return c.Close() },
	} {
		ours, theirs := tcpPair(t)
		go func() {
			if _, err := ReadRequest(theirs); err == nil {
				_ = answer(theirs)
			}
		}()
		if _, err := DialPort(ours, 80, nil); !errors.Is(err, want) {
			t.Errorf("it gives %v, want %v", err, want)
		}
		if _, err := ours.Write([]byte("x")); err == nil {
			t.Error("the connection stays open")
		}
	}
}
