package tunnel

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/net/nettest"
)

// streams gives both ends of a TCP connection.
func streams() (a, b net.Conn, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	if a, err = net.Dial("tcp", l.Addr().String()); err != nil {
		return nil, nil, err
	}
	b, err = l.Accept()
	return a, b, err
}

// overStream gives a connection over a stream.
func overStream(t *testing.T, tm tempo) (a, b *Conn) {
	t.Helper()
	s1, s2, err := streams()
	if err != nil {
		t.Fatal(err)
	}
	a, b = over(s1, tm), over(s2, tm)
	for _, c := range []*Conn{a, b} {
		t.Cleanup(func() { c.Close() })
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
	}
	return a, b
}

func TestOverConformsToNetConn(t *testing.T) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		a, b, err := streams()
		if err != nil {
			return nil, nil, nil, err
		}
		c1, c2 = Over(a), Over(b)
		return c1, c2, func() { c1.Close(); c2.Close() }, nil
	})
}

// What was written arrives whole though its end is closed at once and the other end was sending, too.
func TestOverLastWords(t *testing.T) {
	for range 8 {
		a, b := overStream(t, usualTempo())
		h := sha256.New()
		src := io.TeeReader(io.LimitReader(rand.NewChaCha8([32]byte{1}), 2<<20), h)
		go func() { _, _ = io.Copy(b, rand.NewChaCha8([32]byte{2})) }() // until a is closed
		sent := make(chan error, 1)
		go func() {
			_, err := io.Copy(a, src)
			a.Close()
			sent <- err
		}()
		got := sha256.New()
		if _, err := io.Copy(got, b); err != nil {
			t.Fatal(err)
		}
		if err := <-sent; err != nil || [32]byte(got.Sum(nil)) != [32]byte(h.Sum(nil)) {
			t.Fatalf("what arrives isn't what was sent: %v", err)
		}
	}
}

// A reader that doesn't read has the window and no more, and small writes don't fill the sender.
func TestOverHoldsTheWriterBack(t *testing.T) {
	for _, size := range []int{16, 8 << 20} {
		a, b := overStream(t, usualTempo())
		wrote := make(chan error, 1)
		go func() {
			piece := make([]byte, size)
			for {
				if _, err := a.Write(piece); err != nil {
					wrote <- err
					return
				}
			}
		}()
		eventually(t, "the reader has the whole window", func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.received.Len() == StreamWindow
		})
		if err := a.SetWriteDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if err := <-wrote; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("writes of %d bytes end with %v", size, err)
		}
		if n := cap(a.wire.(*streamWire).pending); n > maxPending {
			t.Errorf("writes of %d bytes take %d of memory", size, n)
		}
	}
}

// A peer that takes nothing from its socket holds the writer back, and the writer's end goes on.
func TestOverAPeerThatTakesNothing(t *testing.T) {
	s1, s2, err := streams()
	if err != nil {
		t.Fatal(err)
	}
	defer s2.Close()
	a := over(s1, hasty())
	defer a.Close()
	if _, err := a.Write(make([]byte, 64<<20)); !errors.Is(err, ErrGone) {
		t.Errorf("write: %v, want ErrGone", err)
	}
}

// A peer that is silent, or ends without a word, is gone.
func TestOverNoticesThatThePeerIsGone(t *testing.T) {
	for name, end := range map[string]func(net.Conn){
		"silent": func(net.Conn) {},
		"closed": func(s net.Conn) { s.Close() },
		"reset":  func(s net.Conn) { _ = s.(*net.TCPConn).SetLinger(0); s.Close() },
		"long":   func(s net.Conn) { _, _ = s.Write(binary.BigEndian.AppendUint32(nil, 1<<31)) },
		"noise":  func(s net.Conn) { _, _ = io.Copy(s, io.LimitReader(rand.NewChaCha8([32]byte{3}), 1<<20)) },
	} {
		s1, s2, err := streams()
		if err != nil {
			t.Fatal(err)
		}
		a := over(s1, hasty())
		go end(s2)
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, ErrGone) {
			t.Errorf("%s: read: %v, want ErrGone", name, err)
		}
		a.Close()
		s2.Close()
	}
}

// The goroutines end, and the stream is closed, though the peer never closes its own.
func TestOverCloseIsBounded(t *testing.T) {
	s1, s2, err := streams()
	if err != nil {
		t.Fatal(err)
	}
	defer s2.Close()
	a := over(s1, hasty())
	if _, err := a.Write([]byte("last")); err != nil {
		t.Fatal(err)
	}
	a.Close()
	eventually(t, "the stream is closed", func() bool {
		return errors.Is(s1.(*net.TCPConn).SetNoDelay(true), net.ErrClosed)
	})
}
