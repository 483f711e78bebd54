package gate

import (
	"context"
	"log/slog"
	"net"
	"sync"
)

// Bound has a listener take only so many connections, of each user of this machine and of all; those of other machines
// are held to all alone. What is more is closed at once.
func Bound(l net.Listener, perUser, all int, log *slog.Logger) net.Listener {
	return &bounded{l, New(l, Options{PerUser: perUser, Elsewhere: all, All: all, Log: log})}
}

type bounded struct {
	net.Listener
	gate *Gate
}

func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		u, by, err := b.gate.enter(context.Background(), c)
		if err == nil {
			return &counted{Conn: c, by: by, leave: sync.OnceFunc(func() { b.gate.leave(c, u) })}, nil
		}
		b.gate.refused(err)
		c.Close()
	}
}

// counted is a connection that counts until it is closed.
type counted struct {
	net.Conn
	by    string
	leave func()
}

func (c *counted) Close() error {
	c.leave()
	return c.Conn.Close()
}

// CloseWrite ends what is written; what the other side says is still read.
func (c *counted) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// By names who has a connection that a bounded listener took, perhaps below TLS: a user of this machine by its number, else
// the address of its machine. "" of other connections.
func By(c net.Conn) string {
	for {
		switch have := c.(type) {
		case *counted:
			return have.by
		case interface{ NetConn() net.Conn }:
			c = have.NetConn()
		default:
			return ""
		}
	}
}
