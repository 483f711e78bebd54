package gateway

import (
	"context"
	"net"
	"strings"
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
	t.Parallel()
	back := &smuggle.Backend{}
	b, _ := doorBench(t, func(o *Options) { o.Ports.Ingress.Dialer = dialed{back} })
	smuggle.Run(t, smuggle.Way{
		Address: strings.TrimPrefix(b.serve(b.gate), "http://"), Host: "80--web.acme.localhost", Path: "/s/acme/web/80", Token: "Diapause-Token: " + secret("a") + "\r\n", Backend: back,
	})
}
