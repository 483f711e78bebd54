package gate

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"testing"
	"time"
)

// A user that has all its connections is refused more; those of another, and of other machines, are let in up to all.
func TestBound(t *testing.T) {
	open, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	l := Bound(open, 1, 3, slog.New(slog.DiscardHandler))
	uid := UID(os.Getuid())
	l.(*bounded).gate.owner = func(c net.Conn) (UID, error) {
		if uid == UID(os.Getuid()) {
			return ownerOf(c)
		}
		return uid, nil
	}
	dial := func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	take := func(want string) net.Conn {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if by := By(tls.Server(c, nil)); by != want {
			t.Errorf("it is by %q, want %q", by, want)
		}
		return c
	}
	closedOne := func(c net.Conn) {
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("one connection too many is open: %v", err)
		}
	}
	dial()
	first := take(strconv.Itoa(os.Getuid()))
	over := dial()
	done := make(chan net.Conn, 1)
	go func() { done <- take(strconv.Itoa(os.Getuid())) }() // once the first has ended
	closedOne(over)
	first.Close()
	dial()
	<-done
	uid = Unknown
	for range 2 {
		dial()
		take("127.0.0.1")
	}
	uid = 7
	over = dial()
	go func() { _, _ = l.Accept() }() // which ends with the listener
	closedOne(over)
	if By(over) != "" {
		t.Error("a connection of no bounded listener has a user")
	}
}
