package shim

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/workers/reach"
)

// forward connects a client to a port of the session, from inside the session's network.
func (v *clients) forward(ctx context.Context, c net.Conn, r attach.Request) error {
	up, err := v.dial(ctx, r.Port)
	if errors.Is(err, reach.ErrRefused) {
		return attach.WriteRefused(c, fmt.Sprintf("nothing listens at port %d of session %s", r.Port, v.name))
	}
	if err != nil {
		return err
	}
	if reader := v.viewers.reader(r.Port); reader != nil && r.Viewer {
		up = viewed{up.(*net.TCPConn), reader}
	}
	whole := func() bool { return !v.silent.Load() }
	_ = attach.ServeForward(c, up, whole) // both ends have seen how it ended
	return nil
}

// dial waits for the end of a capture: a connection that the session has not accepted before is
// not in its image.
func (v *clients) dial(ctx context.Context, port uint16) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, execWait)
	defer cancel()
	if err := v.gate.enter(ctx); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, fmt.Errorf("session %s is being captured: try again", v.name)
		}
		return nil, err
	}
	defer v.gate.leave()
	space, err := reach.Namespace(v.tree.init)
	if err != nil {
		return nil, err
	}
	defer space.Close()
	return reach.Dial(ctx, space, port)
}
