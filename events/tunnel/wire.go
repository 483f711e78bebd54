package tunnel

import (
	"fmt"

	"github.com/nats-io/nats.go"
)

// wire carries the messages of a connection in their order. It may lose some.
type wire interface {
	// receive has c get what arrives from now on, by its deliver, noResponders and ended. Its caller
	// holds c.mu.
	receive(c *Conn) error
	// send takes a message. It keeps nothing of data, and doesn't wait for the peer.
	send(to, reply string, data []byte) error
	limit() int // the size of a message, at most
	full() bool // data has to wait until c.changed says that this has changed
	end()       // what was sent is still carried, and nothing is received any more
}

// natsWire carries them through a NATS server.
type natsWire struct {
	nc  *nats.Conn
	sub *nats.Subscription // nil before receive
}

func (w *natsWire) receive(c *Conn) error {
	sub, err := w.nc.Subscribe(c.local, func(m *nats.Msg) {
		if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
			c.noResponders()
			return
		}
		c.deliver(m.Reply, m.Data)
	})
	if err != nil {
		return fmt.Errorf("subscribe to inbox of tunnel: %w", err)
	}
	sub.SetClosedHandler(func(string) { c.ended(errNATSClosed) })
	w.sub = sub
	return nil
}

func (w *natsWire) send(to, reply string, data []byte) error {
	return w.nc.PublishMsg(&nats.Msg{Subject: to, Reply: reply, Data: data})
}

func (w *natsWire) limit() int { return min(maxMessage, int(w.nc.MaxPayload())) }

func (w *natsWire) full() bool { return false }

func (w *natsWire) end() {
	if w.sub != nil {
		// It fails only when the NATS connection is closed, which frees it as well.
		_ = w.sub.Unsubscribe()
	}
}
