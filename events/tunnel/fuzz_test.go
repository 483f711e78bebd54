package tunnel

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// A peer may send anything on an open connection, each message as long as the byte before
// it says: the connection stays within its bounds or fails, once, and then takes nothing more.
func FuzzReceive(f *testing.F) {
	s := startServer(f)
	nc := connect(f, s)
	seed := func(frames ...frame) {
		var b []byte
		for _, fr := range frames {
			m := fr.append(nil)
			b = append(append(b, byte(len(m))), m...)
		}
		f.Add(b)
	}
	seed(frame{kind: kindData, payload: []byte("hello")}, frame{kind: kindCloseWrite, number: 1}, frame{kind: kindData, number: 2, payload: []byte("more")})
	seed(frame{kind: kindCredit, payload: binary.BigEndian.AppendUint64(nil, 7)}, frame{kind: kindCredit, number: 1, payload: binary.BigEndian.AppendUint64(nil, 3)})
	seed(frame{kind: kindCredit, payload: binary.BigEndian.AppendUint64(nil, 1<<63)})
	seed(frame{kind: kindPing}, frame{kind: kindClose, number: 1}, frame{kind: kindPing, number: 2})
	seed(frame{kind: kindAccept, conn: connID{1}}, frame{kind: kindOpen}, frame{kind: kindAbort, payload: []byte("why")})
	seed(frame{kind: kindData, number: 5, payload: []byte("lost")})
	f.Add([]byte{0, 3, 1, 2, 3, 17})
	f.Fuzz(func(t *testing.T, data []byte) {
		c := newConn(&natsWire{nc: nc}, nc.NewInbox(), nil, usualTempo())
		c.mu.Lock()
		err := c.subscribe()
		c.remote, c.sent = nc.NewInbox(), 9
		c.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		taken := []byte{}
		for len(data) > 0 {
			n := min(int(data[0]), len(data)-1)
			message, open := data[1:1+n], c.failure == nil
			data = data[1+n:]
			c.deliver(nc.NewInbox(), message)
			if had := c.received.Len(); had > len(taken) {
				if !open {
					t.Fatalf("a connection that has failed took %q", message)
				}
				taken = append(taken, message[frameHeader:]...)
			}
			if c.credit > c.sent || c.received.Len() > Window || !bytes.Equal(c.received.Bytes(), taken) {
				t.Fatalf("after %q: credit %d of %d, and %q of %q to be read", message, c.credit, c.sent, c.received.Bytes(), taken)
			}
		}
	})
}
