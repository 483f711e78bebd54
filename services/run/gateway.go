package run

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/events/natsconn"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/gateway"
	"github.com/diapause/diapause/services/ingress"
	"github.com/diapause/diapause/services/ingress/client"
)

// Gateway answers HTTP until ctx ends. It decides nothing: it asks the API, for the bearers of tokens.
func Gateway(ctx context.Context, c GatewayConfig) error {
	return watched(ctx, c.Process, func(ctx context.Context, m gauges) error { return c.serve(ctx, m) })
}

func (c GatewayConfig) serve(ctx context.Context, m gauges) (err error) {
	l, err := gateway.Listen(ctx, c.Listen)
	if err != nil {
		return usagef("%v", err)
	}
	defer func() { _ = l.Close() }() // Serve has closed it, unless that was never reached
	ctx, g := guarded(ctx, "a gateway", "gateway", c.NATS.Creds, c.Log)
	defer func() { err = g.why(ctx, err) }()
	nc, err := connect(ctx, c.NATS, "diapause gateway", c.Log, g.option())
	if err != nil {
		return err
	}
	defer nc.Close()
	m.nats(nc)
	user := natsconn.UserOf(c.NATS.Creds)
	ports, end := portsOn(nc, user, c.Ports)
	defer end()
	gate, err := gateway.New(gateway.Options{
		NC: nc, Names: stream.NamesWith(""), Version: c.Version, Log: c.Log, Hosts: c.Hosts, Origins: c.Origins, Ports: ports, User: user,
	})
	if err != nil {
		return usagef("%v", err)
	}
	m.gateway(gate)
	g.through()
	m.started()
	fmt.Fprintf(c.Out, "ready: gateway %s, %s\n", at(l, c.Listen.CertFile != ""), nc.ConnectedUrlRedacted())
	return gate.Serve(ctx, l)
}

// portsOn has a gateway lead to ports of sessions over its connection, as a user of NATS. The caller calls end.
func portsOn(nc *nats.Conn, user string, c PortsConfig) (p *gateway.Ports, end func()) {
	sessions := client.On(nc, user)
	return &gateway.Ports{
		Ingress: ingress.Options{Domain: c.Domain, Waker: sessions, Leaser: sessions, Dialer: sessions}, NoPublic: c.NoPublic,
	}, sessions.Close
}

// at is where a listener is reached.
func at(l net.Listener, secure bool) string {
	scheme := "http"
	if secure {
		scheme = "https"
	}
	return scheme + "://" + l.Addr().String() + "/api/v1"
}

// httpDoor is the gateway of a process that does more: what keeps it from listening stops nothing else.
type httpDoor struct {
	Process
	gauges  gauges
	address string
	names   stream.Names
	user    string        // of NATS, as which it asks
	tried   chan struct{} // closed when it has listened, or has said why not
	host    schemas.HostID
	here    portDialer // of the sessions of host
}

func newHTTPDoor(p Process, m gauges, address string, names stream.Names, user string) *httpDoor {
	return &httpDoor{Process: p, gauges: m, address: address, names: names, user: user, tried: make(chan struct{})}
}

// listenAgain is how long an address is left alone that is taken.
const listenAgain = time.Second

func (d *httpDoor) serve(ctx context.Context, nc *nats.Conn) error {
	ports, end := portsOn(nc, d.user, PortsConfig{})
	defer end()
	ports.Ingress.Dialer = near{ports.Ingress.Dialer, d.host, d.here}
	gate, err := gateway.New(gateway.Options{NC: nc, Names: d.names, Version: d.Version, Log: d.Log, Ports: ports, User: d.user})
	if err != nil {
		return err
	}
	d.gauges.gateway(gate)
	l, err := d.listen(ctx)
	if err != nil {
		fmt.Fprintf(d.Out, "no HTTP API for now: %v; --http names another address, or off\n", err)
	}
	if err == nil {
		d.say(l)
	}
	close(d.tried)
	for l == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(listenAgain):
		}
		if l, err = d.listen(ctx); err == nil {
			d.say(l)
		}
	}
	if err := gate.Serve(ctx, l); err != nil {
		d.Log.Error("the HTTP API has ended; the next start has it again", "err", err)
	}
	return nil
}

func (d *httpDoor) listen(ctx context.Context) (net.Listener, error) {
	return gateway.Listen(ctx, gateway.ListenOptions{Address: d.address})
}

func (d *httpDoor) say(l net.Listener) {
	fmt.Fprintf(d.Out, "HTTP API: %s, for tokens of `diapause token create`; `diapause login-link` logs a browser in\n", at(l, false))
}
