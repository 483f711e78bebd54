package ingress

import (
	"context"
	"net"
	"testing"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/ingress/smuggle"
)

// dialed is a Dialer to a backend.
type dialed struct{ *smuggle.Backend }

func (d dialed) Dial(ctx context.Context, _ schemas.View, _ uint16) (net.Conn, error) {
	return d.Backend.Dial(ctx)
}

func TestSmuggling(t *testing.T) {
	back := &smuggle.Backend{}
	o := newFleet(t, nil).options()
	o.Dialer = dialed{back}
	smuggle.Run(t, smuggle.Way{Address: serve(t, o), Host: webHost, Path: "/s/acme/web/80", Backend: back})
}
