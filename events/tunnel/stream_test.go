package tunnel

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/net/nettest"
)

func TestConformsToNetConn(t *testing.T) {
	s := startServer(t)
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		nc1, nc2 := connect(t, s), connect(t, s)
		l, err := Listen(nc2, subject)
		if err != nil {
			return nil, nil, nil, err
		}
		d, err := Dial(t.Context(), nc1, subject, nil)
		if err != nil {
			return nil, nil, nil, err
		}
		a, err := l.Accept(t.Context())
		if err != nil {
			return nil, nil, nil, err
		}
		return d, a, func() { d.Close(); a.Close(); l.Close(); nc1.Close(); nc2.Close() }, nil
	})
}

func TestBulkBothWaysAtOnce(t *testing.T) {
	const size = 64 << 20
	e := open(t, usualTempo())
	type result struct {
		from string
		sum  [32]byte
		err  error
	}
	results := make(chan result, 4)
	send := func(c *Conn, from string, seed byte) {
		h := sha256.New()
		src := io.LimitReader(rand.NewChaCha8([32]byte{seed}), size)
		_, err := io.Copy(io.MultiWriter(c, h), src)
		if err == nil {
			err = c.CloseWrite()
		}
		results <- result{from, [32]byte(h.Sum(nil)), err}
	}
	receive := func(c *Conn, from string) {
		h := sha256.New()
		_, err := io.Copy(h, c)
		results <- result{from, [32]byte(h.Sum(nil)), err}
	}
	begin := time.Now()
	go send(e.dialer, "dialer", 1)
	go send(e.accepted, "accepted", 2)
	go receive(e.accepted, "dialer")
	go receive(e.dialer, "accepted")
	sums := map[string][32]byte{}
	for range 4 {
		r := <-results
		if r.err != nil {
			t.Fatalf("stream from %s: %v", r.from, r.err)
		}
		if other, ok := sums[r.from]; ok && other != r.sum {
			t.Errorf("stream from %s was changed on its way", r.from)
		}
		sums[r.from] = r.sum
	}
	t.Logf("2 × %d MiB in %s", size>>20, time.Since(begin).Round(time.Millisecond))
}

func TestSlowReaderHoldsTheWriterBack(t *testing.T) {
	e := open(t, usualTempo())
	type result struct {
		n   int
		err error
	}
	written := make(chan result, 1)
	go func() { n, err := e.dialer.Write(make([]byte, 4*Window)); written <- result{n, err} }()
	eventually(t, "the reader has the whole window", func() bool {
		e.accepted.mu.Lock()
		defer e.accepted.mu.Unlock()
		return e.accepted.received.Len() == Window
	})
	if err := e.dialer.SetWriteDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if r := <-written; !errors.Is(r.err, os.ErrDeadlineExceeded) || r.n != Window {
		t.Fatalf("wrote %d bytes to an end that doesn't read (%v), want %d and a timeout", r.n, r.err, Window)
	}
	in := e.listenNC.Stats().InBytes
	if in > Window+Window/8 {
		t.Errorf("%d bytes reached the end that doesn't read, want about %d", in, Window)
	}
	if err := e.dialer.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	rest := make(chan error, 1)
	go func() { _, err := e.dialer.Write(make([]byte, 3*Window)); rest <- err }()
	if _, err := io.CopyN(io.Discard, e.accepted, 4*Window); err != nil {
		t.Fatal(err)
	}
	if err := <-rest; err != nil {
		t.Errorf("write after the reader went on: %v", err)
	}
}

func TestMessagesAreSmall(t *testing.T) {
	e := open(t, usualTempo())
	sub, err := e.listenNC.SubscribeSync(e.accepted.local)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.listenNC.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := e.dialer.Write(make([]byte, 100_000)); err != nil {
		t.Fatal(err)
	}
	if err := e.dialer.Close(); err != nil {
		t.Fatal(err)
	}
	for closed := false; !closed; {
		m, err := sub.NextMsg(patience)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Data) > maxMessage {
			t.Errorf("a message has %d bytes, want at most %d", len(m.Data), maxMessage)
		}
		closed = m.Data[0] == byte(kindClose)
	}
}

func TestHelloReachesTheListener(t *testing.T) {
	e := open(t, usualTempo())
	if got := e.accepted.Hello(); string(got) != "hello" {
		t.Errorf("hello is %q, want %q", got, "hello")
	}
}

func TestHalfClose(t *testing.T) {
	e := open(t, usualTempo())
	if _, err := e.dialer.Write([]byte("question")); err != nil {
		t.Fatal(err)
	}
	if err := e.dialer.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := e.dialer.Write([]byte("more")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write after CloseWrite: %v, want net.ErrClosed", err)
	}
	got, err := io.ReadAll(e.accepted)
	if err != nil || string(got) != "question" {
		t.Fatalf("read %q (%v), want the question and its end", got, err)
	}
	if _, err := e.accepted.Write([]byte("answer")); err != nil {
		t.Fatal(err)
	}
	if err := e.accepted.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err = io.ReadAll(e.dialer); err != nil || string(got) != "answer" {
		t.Fatalf("read %q (%v), want the answer and its end", got, err)
	}
}

func TestCloseEndsBothEnds(t *testing.T) {
	e := open(t, usualTempo())
	blocked := make(chan error, 1)
	go func() { _, err := e.dialer.Read(make([]byte, 1)); blocked <- err }()
	if _, err := e.dialer.Write([]byte("last words")); err != nil {
		t.Fatal(err)
	}
	if err := e.dialer.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-blocked; !errors.Is(err, net.ErrClosed) {
		t.Errorf("read that Close ended: %v, want net.ErrClosed", err)
	}
	if err := e.dialer.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("second Close: %v, want net.ErrClosed", err)
	}
	if got, err := io.ReadAll(e.accepted); err != nil || string(got) != "last words" {
		t.Fatalf("read %q (%v), want the last words and their end", got, err)
	}
	if _, err := e.accepted.Write([]byte("x")); !errors.Is(err, ErrPeerClosed) {
		t.Errorf("write to a closed peer: %v, want ErrPeerClosed", err)
	}
}

func TestAWriterThatWaitsIsWokenByThePeersClose(t *testing.T) {
	e := open(t, usualTempo())
	blocked := make(chan error, 1)
	go func() { _, err := e.dialer.Write(make([]byte, 2*Window)); blocked <- err }()
	if _, err := io.ReadFull(e.accepted, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := e.accepted.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-blocked; !errors.Is(err, ErrPeerClosed) {
		t.Errorf("write: %v, want ErrPeerClosed", err)
	}
}

func TestAbortCarriesItsReason(t *testing.T) {
	e := open(t, usualTempo())
	if _, err := e.accepted.Write([]byte("before")); err != nil {
		t.Fatal(err)
	}
	if err := e.accepted.Abort("no such session"); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(e.dialer)
	if !errors.Is(err, ErrAborted) || !bytes.Contains([]byte(err.Error()), []byte("no such session")) {
		t.Errorf("read: %v, want ErrAborted with the reason", err)
	}
	if string(got) != "before" {
		t.Errorf("read %q, want what was written before", got)
	}
}
