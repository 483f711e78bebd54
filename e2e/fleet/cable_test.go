package fleet

import (
	"bytes"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// cable is the way of one worker to NATS, which can be cut, or be long and bad.
type cable struct {
	listener net.Listener
	to       string
	delay    time.Duration // one way
	loses    int           // one of so many packets; none if 0

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
}

// wire has the worker reach NATS by a cable.
func (w *host) wire() *cable { return w.wireOf(&cable{}) }

// wireOf is wire with a delay and losses.
func (w *host) wireOf(c *cable) *cable {
	w.hosts.t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		w.hosts.t.Fatal(err)
	}
	c.listener = l
	return w.wireBy(c)
}

// wireBy is wire by a cable with a listener that the worker reaches.
func (w *host) wireBy(c *cable) *cable {
	c.to, c.conns = strings.TrimPrefix(w.url, "nats://"), map[net.Conn]bool{}
	w.url = "nats://" + c.listener.Addr().String()
	go c.serve()
	w.hosts.cables = append(w.hosts.cables, c)
	return c
}

func (c *cable) serve() {
	for {
		a, err := c.listener.Accept()
		if err != nil {
			return
		}
		b, err := net.Dial("tcp4", c.to)
		if err != nil || !c.add(a, b) {
			a.Close()
			continue
		}
		for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
			go func() {
				c.carry(way[0], way[1])
				a.Close()
				b.Close()
			}()
		}
	}
}

// retransmission is for how long a packet that is lost keeps TCP waiting: Linux's least timeout.
const retransmission = 200 * time.Millisecond

// parcel is what a cable carries, and when it arrives.
type parcel struct {
	due  time.Time
	data []byte
}

// carry takes what is written at one end to the other, until either ends. TCP resends what is lost, so
// that a program sees no loss but a pause; what was sent meanwhile comes after it.
func (c *cable) carry(to, from net.Conn) {
	if c.delay == 0 {
		_, _ = io.Copy(to, from)
		return
	}
	under := make(chan parcel, 1024)
	go func() {
		defer close(under)
		b := make([]byte, 1448) // a segment on an Ethernet
		for i := 1; ; i++ {
			n, err := from.Read(b)
			if err != nil {
				return
			}
			p := parcel{time.Now().Add(c.delay), bytes.Clone(b[:n])}
			if c.loses > 0 && i%c.loses == 0 {
				p.due = p.due.Add(retransmission)
			}
			under <- p
		}
	}()
	for p := range under {
		time.Sleep(time.Until(p.due))
		if _, err := to.Write(p.data); err != nil {
			from.Close() // the reader ends
		}
	}
}

func (c *cable) add(conns ...net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range conns {
		if c.cut {
			conn.Close()
			continue
		}
		c.conns[conn] = true
	}
	return !c.cut
}

// set cuts the cable, or mends it.
func (c *cable) set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
	if cut {
		for conn := range c.conns {
			conn.Close()
		}
		clear(c.conns)
	}
}
