// Package tunnel carries a byte stream between two NATS clients, as a net.Conn,
// so that a client can reach a terminal, a command or a file of a session on a
// host that nothing but NATS connects it to.
//
// The way through it: dial.go and listen.go make the two ends of a Conn (the
// dialer sends its hello to the listener's subject with its inbox as reply; the
// listener answers from an inbox made for this one connection, and hands the
// connection to Accept once the dialer has confirmed it), conn.go is what the
// application calls, receive.go is what the other end's messages do,
// frame.go is the message format, deadline.go the deadlines, wire.go what carries the messages.
//
// NATS core delivers at most once and bounds nothing. The tunnel adds what a
// stream needs: every message of a direction carries the next number, so that a
// lost one ends the connection with ErrLost at the next message, and never
// corrupts the stream; at most Window bytes of a direction are unread by the
// receiving application, the sender waits for the rest; each end sends a ping
// every few seconds, so that both notice when the other is gone.
//
// It needs the right to publish to the listener's subject and to inboxes and to
// subscribe to its own inboxes (nats.CustomInboxPrefix is respected). A
// reconnect of the NATS connection does no harm when no message was lost
// meanwhile; otherwise the connection ends with ErrLost or ErrGone.
//
// Where the two ends have a connection of another kind, Over makes a Conn of it (over.go): the same
// frames, flow control and pings, with a larger window and no server between.
//
// It never resends, never encrypts (that is the work of the connection beneath) and
// never authenticates the dialer: any client that may publish to the subject is let in.
package tunnel
