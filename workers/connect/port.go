package connect

import (
	"context"
	"fmt"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// DialPort connects a client in this process to a port of a session, by its shim alone: the connection doesn't go through
// NATS. The session has to run here, in the life that v is of. Errors are those of attach.DialPort; the context ends the
// dial, not the connection.
func (s *Server) DialPort(ctx context.Context, v schemas.View, port uint16) (*attach.PortConn, error) {
	n, err := schemas.ParseName(v.Name)
	if err != nil {
		return nil, err
	}
	rec, err := s.Records.Get(ctx, n)
	if err != nil {
		return nil, err
	}
	if rec.UID != v.UID || rec.Host != s.Host || rec.State != schemas.Running {
		return nil, fmt.Errorf("session %s was suspended or moved since: ask again", n)
	}
	d, ok := s.Drivers[rec.Driver].(driver.Dialer)
	if !ok {
		return nil, fmt.Errorf("sessions of driver %q can't be connected to", rec.Driver)
	}
	conn, err := d.Dial(ctx, rec.UID)
	if err != nil {
		return nil, fmt.Errorf("connect to session %s: %w", n, err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	up, err := attach.DialPort(conn, port, nil)
	if !stop() && err == nil {
		up.Close()
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	return up, nil
}
