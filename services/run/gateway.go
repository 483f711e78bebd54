package run

import (
	"cmp"
	"context"
	"fmt"
	"net"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/events/natsconn"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/services/gateway"
	"github.com/diapause/diapause/services/ingress"
	"github.com/diapause/diapause/services/ingress/client"
)

// GatewayPart is the name of a gateway that has none of its own.
const GatewayPart = "gateway"

// Gateway answers HTTP until ctx ends. It decides nothing: it asks the API, for the bearers of tokens.
func Gateway(ctx context.Context, c GatewayConfig) error {
	return watched(ctx, c.Process, func(ctx context.Context, m gauges) error { return c.serve(ctx, m) })
}

func (c GatewayConfig) serve(ctx context.Context, m gauges) (err error) {
	c.Name = cmp.Or(c.Name, GatewayPart)
	outside, err := gateway.ParseOutside(c.Web.Public, c.Web.Proxies)
	if err != nil {
		return misuse(err)
	}
	cert, err := c.Web.open(c.Listen.Address, c.Hosts, c.Log)
	if err != nil {
		return misuse(err)
	}
	c.Listen.TLS, c.Listen.Log = configOf(cert), c.Log
	l, err := gateway.Listen(ctx, c.Listen)
	if err != nil {
		return misuse(err)
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
	ports, end := portsOn(nc, user, c.Web.Domain, c.NoPublicPorts)
	defer end()
	gate, err := gateway.New(gateway.Options{
		NC: nc, Names: stream.NamesWith(""), Version: c.Version, Log: c.Log, Hosts: c.Hosts, Origins: c.Origins, Outside: outside, Ports: ports, User: user,
	})
	if err != nil {
		return misuse(err)
	}
	m.gateway(gate)
	g.through()
	m.started()
	sayTrust(c.Out, cert)
	fmt.Fprintf(c.Out, "ready: gateway %s, %s\n", at(l, cert != nil), nc.ConnectedUrlRedacted())
	run, ctx := errgroup.WithContext(ctx)
	run.Go(func() error { return gate.Serve(ctx, l) })
	run.Go(func() error { return listeningOn(nc, stream.NamesWith(""), c.Name, ports.Ingress, c.Log).serve(ctx) })
	return run.Wait()
}

// portsOn has a gateway lead to ports of sessions over its connection, as a user of NATS. The caller calls end.
func portsOn(nc *nats.Conn, user, domain string, noPublic bool) (p *gateway.Ports, end func()) {
	sessions := client.On(nc, user)
	return &gateway.Ports{
		Ingress: ingress.Options{Domain: domain, Waker: sessions, Leaser: sessions, Dialer: sessions}, NoPublic: noPublic,
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
