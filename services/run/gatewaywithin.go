package run

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/events/natsconn"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/certificate"
	"github.com/diapause/diapause/services/gateway"
)

// httpDoor is the gateway of a process that does more: what keeps it from listening stops nothing else.
type httpDoor struct {
	Process
	gauges  gauges
	address string
	web     WebConfig
	cert    *certificate.Source // nil without TLS, and before it could be read or made
	names   stream.Names
	user    string        // of NATS, as which it asks
	person  bool          // one reads Out as it is written
	tried   chan struct{} // closed when it has listened, or has said why not
	url     string        // for browsers, once it has listened; set before tried is closed
	nc      *nats.Conn    // its own
	host    schemas.HostID
	here    portDialer // of the sessions of host
}

// door adds a gateway to the parts of this process; nil if it is to have none.
func (h hostProcess) door(ctx context.Context, m machine, at server, opt nats.Option, p *parts) (*httpDoor, error) {
	if h.HTTP == "" {
		return nil, nil
	}
	d := &httpDoor{
		Process: h.Process, gauges: h.gauges, address: h.HTTP, web: h.Web, names: m.names, user: natsconn.UserOf(at.system), person: h.Person, tried: make(chan struct{}),
		host: m.data.Host(), here: p.worker,
	}
	var err error
	if d.nc, err = at.connect(ctx, "diapause gateway", h.Log, opt); err != nil {
		return nil, err
	}
	p.serving, p.ready = append(p.serving, d.serve, d.listening), append(p.ready, d.tried)
	return d, nil
}

// close ends what door has started, also if there is none.
func (d *httpDoor) close() {
	if d != nil {
		d.nc.Close()
	}
}

// where is the URL for browsers, once it was tried to listen; "" if there is none.
func (d *httpDoor) where() string {
	if d == nil {
		return ""
	}
	return d.url
}

// listenAgain is how long an address is left alone that is taken.
const listenAgain = time.Second

func (d *httpDoor) serve(ctx context.Context) error {
	outside, err := gateway.ParseOutside(d.web.Public, d.web.Proxies)
	if err != nil {
		return misuse(err)
	}
	ports, end := d.ports()
	defer end()
	gate, err := gateway.New(gateway.Options{NC: d.nc, Names: d.names, Version: d.Version, Log: d.Log, Outside: outside, Ports: ports, User: d.user})
	if err != nil {
		return err
	}
	d.gauges.gateway(gate)
	l, err := d.listen(ctx)
	if err != nil {
		fmt.Fprintf(d.Out, "no HTTP API for now: %v; --http names another address, or off\n", err)
	}
	if err == nil {
		d.url = cmp.Or(outside.URL(), d.local(l))
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

// ports are how sessions are reached: those of this host within the process.
func (d *httpDoor) ports() (*gateway.Ports, func()) {
	ports, end := portsOn(d.nc, d.user, d.web.Domain, false)
	ports.Ingress.Dialer = near{ports.Ingress.Dialer, d.host, d.here}
	return ports, end
}

// listening takes the TCP connections of `ingress add`, when the gateway has its address: what is sent there holds tokens.
func (d *httpDoor) listening(ctx context.Context) error {
	select {
	case <-d.tried:
	case <-ctx.Done():
		return nil
	}
	ports, end := d.ports()
	defer end()
	if err := listeningOn(d.nc, d.names, schemas.DefaultPart, ports.Ingress, d.Log).serve(ctx); err != nil {
		d.Log.Error("no listener takes connections any more; the next start has them again", "err", err)
	}
	return nil
}

func (d *httpDoor) listen(ctx context.Context) (_ net.Listener, err error) {
	if d.cert == nil {
		if d.cert, err = d.web.open(d.address, nil, d.Log); err != nil {
			return nil, err
		}
	}
	return gateway.Listen(ctx, gateway.ListenOptions{Address: d.address, TLS: configOf(d.cert), Log: d.Log})
}

func (d *httpDoor) say(l net.Listener) {
	sayTrust(d.Out, d.cert)
	fmt.Fprintf(d.Out, "HTTP API: %s, for tokens of `diapause token create`; `diapause login-link` logs a browser in to the console\n", at(l, d.cert != nil))
}

// local is the URL of a listener for browsers of this machine.
func (d *httpDoor) local(l net.Listener) string {
	scheme := "http"
	if d.cert != nil {
		scheme = "https"
	}
	_, port, _ := net.SplitHostPort(l.Addr().String()) // which it always has
	return scheme + "://" + net.JoinHostPort("localhost", port)
}

// How long the login of a link lasts that is printed at the start, and how long the start waits for it.
const (
	loginFor  = 12 * time.Hour
	loginWait = 10 * time.Second
)

// greet prints a link that logs a browser in, for the person who has started this: an operator's, for they run it as root.
// The API answers by now.
func (d *httpDoor) greet(ctx context.Context) {
	if d == nil || !d.person || d.url == "" { // it has said why it doesn't listen
		return
	}
	ctx, cancel := context.WithTimeout(ctx, loginWait)
	defer cancel()
	var v schemas.TokenView
	request := schemas.Request{Token: &schemas.TokenRequest{Role: schemas.TokenOperator, For: schemas.Duration(loginFor), Link: true}}
	if err := events.NewAPI(d.nc, events.Options{By: "up", User: d.user}).Ask(ctx, "token_create", request, &v); err != nil {
		d.Log.Warn("no link to log in with", "err", err)
		return
	}
	fmt.Fprintf(d.Out, "log a browser in, once and before %s:\n  %s\n", v.Expires.Local().Format(time.TimeOnly), gateway.LoginLink(d.url, v.Token))
}
