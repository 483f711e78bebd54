package run

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/ingress"
)

// portDialer is the worker of this process, as a gateway needs it.
type portDialer interface {
	DialPort(ctx context.Context, v schemas.View, port uint16) (*attach.PortConn, error)
}

// near connects to sessions of this host within the process, and to others as Dialer does.
type near struct {
	ingress.Dialer
	host schemas.HostID
	here portDialer
}

// Dial implements ingress.Dialer.
func (d near) Dial(ctx context.Context, v schemas.View, port uint16) (net.Conn, error) {
	if v.Host != d.host {
		return d.Dialer.Dial(ctx, v, port)
	}
	conn, err := d.here.DialPort(ctx, v, port)
	var refused attach.RefusedError
	switch {
	case errors.As(err, &refused):
		return nil, fmt.Errorf("%w: %w", ingress.ErrRefused, err)
	case err != nil:
		return nil, err
	}
	return conn, nil
}
