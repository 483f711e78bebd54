package network

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

// TestHold sends in both directions while the network is held: nothing comes through, also not between
// two programs inside, and nothing is lost.
func TestHold(t *testing.T) {
	n := made(t, Options{})
	pair := func(listen func(func() error) error, at string) (one, other net.Conn) {
		var l net.Listener
		if err := listen(func() (err error) { l, err = net.Listen("tcp", at+":0"); return err }); err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if err := n.Inside(func() (err error) { one, err = net.Dial("tcp", l.Addr().String()); return err }); err != nil {
			t.Fatal(err)
		}
		other, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { one.Close(); other.Close() })
		return one, other
	}
	in, out := pair(inOutside, peerAddress)
	a, b := pair(n.Inside, "127.0.0.1")
	ways := map[string][2]net.Conn{"out": {in, out}, "in": {out, in}, "inside": {a, b}, "inside, back": {b, a}}
	if err := n.Hold(); err != nil {
		t.Fatal(err)
	}
	if err := n.Hold(); err != nil { // twice is once
		t.Fatal(err)
	}
	text := []byte("held back")
	for name, w := range ways {
		if _, err := w[0].Write(text); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	for name, w := range ways {
		w[1].SetReadDeadline(time.Now().Add(short))
		if k, err := w[1].Read(make([]byte, 100)); err == nil {
			t.Errorf("%s: %d bytes came while the network was held", name, k)
		}
	}
	if err := n.Release(); err != nil {
		t.Fatal(err)
	}
	for name, w := range ways {
		got := make([]byte, len(text))
		w[1].SetReadDeadline(time.Now().Add(long))
		if _, err := io.ReadFull(w[1], got); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%s: %q came after the release, %v", name, got, err)
		}
	}
	if err := n.Release(); err != nil {
		t.Errorf("a second release: %v", err)
	}
}

// TestGivenUp uses a network that was closed: it says so, and enters nothing else.
func TestGivenUp(t *testing.T) {
	n := made(t, Options{})
	n.Close()
	for name, do := range map[string]func() error{
		"Inside": func() error { return n.Inside(func() error { t.Error("it entered a network"); return nil }) },
		"Unlock": n.Unlock, "Hold": n.Hold,
	} {
		if err := do(); err == nil {
			t.Errorf("%s of a network that is given up succeeds", name)
		}
	}
}

// BenchmarkHold is what a suspend takes longer for it, without connections to the outside and with one.
func BenchmarkHold(b *testing.B) {
	for name, connected := range map[string]bool{"alone": false, "connected": true} {
		b.Run(name, func(b *testing.B) {
			n, err := Make(Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer n.Close()
			if connected {
				var l net.Listener
				if err := inOutside(func() (err error) { l, err = net.Listen("tcp", peerAddress+":0"); return err }); err != nil {
					b.Fatal(err)
				}
				defer l.Close()
				var c net.Conn
				if err := n.Inside(func() (err error) { c, err = net.Dial("tcp", l.Addr().String()); return err }); err != nil {
					b.Fatal(err)
				}
				defer c.Close()
			}
			for b.Loop() {
				if err := n.Hold(); err != nil {
					b.Fatal(err)
				}
				if err := n.Release(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
