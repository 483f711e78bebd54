package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/ingress"
	ingressclient "github.com/diapause/diapause/services/ingress/client"
)

const ingressHelp = `Serve the HTTP ports of all sessions at one address, and resume a session when it is asked for:

  http://PORT--NAME.TENANT.localhost:8443/    a port of a session, on an origin of its own
  http://localhost:8443/s/TENANT/NAME/PORT/   the same for programs, without cookies

A browser that opens a suspended session gets a page that shows how far the resume is and reloads itself;
other clients wait. Health checks and link previews don't resume a session, and are answered in its
stead (--wake). A request, a WebSocket or a connection that is open keeps its session from being suspended.

With NAME and PORT, connections of any protocol are taken at --listen and led to that one port.

Who can reach the address can reach all ports of the sessions that the credentials of this command may
reach. So it has to be a loopback address, and pages of other sites are refused. It ends with Ctrl-C.

"ingress add" has "up --http" or a gateway listen for good, also beyond loopback.`

// ingressFlags are the flags of ingress.
type ingressFlags struct {
	listen       string
	domain       string
	wake, ignore []string
	proxied      []string
	to           portFlags
	asJSON       bool
	log          logging
}

func ingressCommand(c *client) *cobra.Command {
	var f ingressFlags
	cmd := &cobra.Command{
		Use: "ingress [NAME PORT]", Short: "Serve the ports of sessions, and resume them when they are asked for", Long: ingressHelp,
		Example: "  diapause ingress\n  diapause ingress --listen 127.0.0.1:2222 work 22",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				return usagef("ingress: an argument is missing").WithHint("usage: diapause ingress [NAME PORT]")
			}
			return cobra.MaximumNArgs(2)(nil, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, c, args) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.listen, "listen", "127.0.0.1:8443", "loopback `ADDR:PORT` to listen at; port 0 takes a free one")
	fl.StringVar(&f.domain, "domain", ingress.DefaultDomain, "`NAME` below which sessions have host names: one label each, for one wildcard certificate")
	fl.StringSliceVar(&f.wake, "wake", nil, "the `CLASSES` of requests that resume a session, in place of what the policies of the sessions say; others are answered in its stead")
	fl.StringSliceVar(&f.ignore, "ignore", nil, "`CLASSES` whose connections are closed without an answer, in place of that")
	fl.StringSliceVar(&f.proxied, "proxy-protocol", nil, "with NAME: accept a PROXY header from a load balancer, send one to the session, or accept,send")
	f.to.flags(cmd)
	fl.BoolVar(&f.asJSON, "json", false, "print the address as JSON")
	f.log.flags(cmd)
	cmd.AddCommand(ingressAddCommand(c), ingressListCommand(c), ingressRemoveCommand(c))
	return cmd
}

// served is what ingress --json prints.
type served struct {
	Address string `json:"address"`
	Session string `json:"session,omitempty"` // of a TCP port
	Port    uint16 `json:"port,omitempty"`
	URL     string `json:"url,omitempty"` // of sessions, with words in capitals for their names
}

func (f ingressFlags) run(cmd *cobra.Command, c *client, args []string) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	target, err := f.target(args)
	if err != nil {
		return err
	}
	if err := checkLoopback(f.listen); err != nil {
		return err
	}
	var all []schemas.View // what matters is that they may be listed
	if err := c.call(cmd.Context(), "list", schemas.Request{Tenant: schemas.DefaultTenant}, &all); err != nil {
		return err
	}
	sessions := ingressclient.New(func() (events.Options, error) { return c.options("ingress") })
	defer sessions.Close()
	o.Authorizer, o.Waker, o.Leaser, o.Dialer = ingressclient.Loopback{Domain: o.Domain}, sessions, sessions, sessions
	l, err := net.Listen("tcp", f.listen)
	if err != nil {
		return schemas.WithHint(fmt.Errorf("ingress: %w", err), "choose another address with --listen, port 0 for one that is free")
	}
	defer l.Close()
	if target.Port != 0 {
		return f.serveTCP(cmd.Context(), o, target, l)
	}
	return f.serveHTTP(cmd.Context(), o, l)
}

// options reads the flags.
func (f ingressFlags) options() (o ingress.Options, err error) {
	if o.Log, err = f.log.open(); err != nil {
		return o, err
	}
	o.Budgets = f.to.budgets
	if o.Domain, err = domainOf(f.domain); err != nil {
		return o, err
	}
	if o.HostHeader, err = f.to.hostHeader(); err != nil {
		return o, err
	}
	if len(f.wake)+len(f.ignore) > 0 {
		if len(f.wake) == 0 {
			for _, rule := range schemas.DefaultWake() {
				f.wake = append(f.wake, string(rule))
			}
		}
		if o.Policy, err = ingress.ParsePolicy(f.wake, f.ignore); err != nil {
			return o, usagef("--wake: %v", err)
		}
	}
	return o, nil
}

// domainOf reads --domain.
func domainOf(text string) (string, error) {
	domain := strings.ToLower(strings.Trim(text, "."))
	if domain == "" || strings.ContainsAny(domain, ":/ ") {
		return "", usagef("--domain %q: want a host name such as apps.example.com", text)
	}
	return domain, nil
}

// target reads NAME PORT; nothing without them.
func (f ingressFlags) target(args []string) (t ingress.Target, err error) {
	if len(args) == 0 {
		if len(f.proxied) > 0 {
			return t, usagef("--proxy-protocol is for NAME PORT")
		}
		return t, nil
	}
	for _, word := range f.proxied {
		if word != proxyAccept && word != proxySend {
			return t, usagef("--proxy-protocol %q: want accept or send", word)
		}
	}
	if t.Name, err = schemas.ParseName(args[0]); err != nil {
		return t, usage(err)
	}
	port, err := strconv.ParseUint(args[1], 10, 16)
	if err != nil || port == 0 {
		return t, usagef("ingress %q: want a port from 1 to 65535", args[1])
	}
	t.Port = uint16(port)
	return t, nil
}

// What --proxy-protocol says.
const (
	proxyAccept = "accept"
	proxySend   = "send"
)

// checkLoopback refuses an address that others reach: there are no tokens yet that tell callers apart.
func checkLoopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return usagef("--listen %q: want ADDR:PORT", address)
	}
	if a, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !a.IsLoopback()) {
		return usagef("--listen %s: who reaches that could use all sessions", address).WithHint("listen at 127.0.0.1, behind a proxy that knows its users")
	}
	return nil
}

func (f ingressFlags) serveHTTP(ctx context.Context, o ingress.Options, l net.Listener) error {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	names := "PORT--NAME.TENANT." + o.Domain
	if o.Domain != ingress.DefaultDomain {
		names = "PORT--NAME--TENANT." + o.Domain
	}
	s := served{Address: l.Addr().String(), URL: "http://" + net.JoinHostPort(names, port) + "/"}
	if err := f.print(s, "serving sessions at "+s.URL); err != nil {
		return err
	}
	p := ingress.New(o)
	defer p.Close()
	return p.Serve(ctx, l)
}

func (f ingressFlags) serveTCP(ctx context.Context, o ingress.Options, t ingress.Target, l net.Listener) error {
	s := served{Address: l.Addr().String(), Session: t.Name.String(), Port: t.Port}
	if err := f.print(s, fmt.Sprintf("serving %s at %s", t, s.Address)); err != nil {
		return err
	}
	server := ingress.NewTCPServer(o, t)
	server.Told, server.Tells = slices.Contains(f.proxied, proxyAccept), slices.Contains(f.proxied, proxySend)
	return server.Serve(ctx, l)
}

func (f ingressFlags) print(s served, line string) error {
	if f.asJSON {
		return printLine(s)
	}
	if _, err := fmt.Fprintln(printed, line); err != nil {
		return fmt.Errorf("print the address: %w", err)
	}
	return nil
}
