package main

import (
	"cmp"
	"net"
	"net/netip"
	"os"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/gateway"
	"github.com/diapause/diapause/services/run"
)

const gatewayHelp = `Answer HTTP, and nothing else, until it is interrupted: every verb as REST below
/api/v1, what happens as server-sent events, and at /api/v1/docs a page that shows all
that and lets one try it. Each request has a token, of "diapause token create".

It leads to ports of sessions, too, at PORT--NAME.TENANT.localhost or below --domain, and at
/s/TENANT/NAME/PORT/ for bearers of tokens: see "expose".

More than one may run, behind a load balancer: it keeps nothing. It needs no root and no
data directory. Beyond loopback it takes TLS: --tls self, or --tls-cert and --tls-key.

A "diapause up" has one of its own on 127.0.0.1, see up --http.`

func gatewayCommand(c *client) *cobra.Command {
	var conf run.GatewayConfig
	var web webFlags
	var nats, metrics string
	var log logging
	cmd := &cobra.Command{
		Use: "gateway", Short: "Answer HTTP for the bearers of tokens", Long: gatewayHelp, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if nats == "" {
				return usagef("gateway: name the NATS server with --nats, and its credentials with --creds")
			}
			if !schemas.ValidToken(conf.Name) {
				return usagef("--name %q: want 1 to 64 of A-Z a-z 0-9 _ -", conf.Name)
			}
			conf.Listen.PlainAt = os.Getenv(gateway.PlainVariable)
			var err error
			if conf.Web, err = web.config(""); err != nil {
				return err
			}
			l, err := log.open()
			if err != nil {
				return err
			}
			conf.Process = run.Process{Version: version, Metrics: metrics, Out: os.Stdout, Log: l}
			conf.NATS = run.NATS{URL: nats, Creds: c.creds}
			return run.Gateway(cmd.Context(), conf)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&nats, "nats", os.Getenv("DIAPAUSE_URL"), "the NATS server that the fleet uses, with --creds (DIAPAUSE_URL)")
	fl.StringVar(&conf.Name, "name", run.GatewayPart, "what ingress add --part calls it, which has it listen for TCP, too")
	fl.StringVar(&conf.Listen.Address, "listen", gateway.Address, "host:port to listen at; port 0 takes a free one")
	fl.BoolVar(&conf.Listen.Plain, "plain-beyond-loopback", false, "listen at an address of the network without TLS, if DIAPAUSE_PLAIN_BEYOND_LOOPBACK names the same address: who can read packets on the way gets the tokens")
	fl.StringArrayVar(&conf.Hosts, "host", nil, "a `NAME` under which clients reach it; addresses and localhost are taken anyway, requests for other names refused")
	fl.StringArrayVar(&conf.Origins, "origin", nil, "let pages of this `ORIGIN` ask it, as https://app.example.com")
	web.flags(cmd)
	fl.BoolVar(&conf.NoPublicPorts, "no-public-ports", false, "have ports that were exposed as public take a token all the same")
	metricsFlag(cmd, &metrics)
	log.flags(cmd)
	return cmd
}

// httpOff is the address of no gateway.
const httpOff = "off"

func httpFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "http", cmp.Or(os.Getenv("DIAPAUSE_HTTP"), gateway.Address),
		"serve the HTTP API at this address of the loopback device, or off; if the port is taken, it is tried again (DIAPAUSE_HTTP)")
}

// checkHTTP reads the address of the gateway of up; "" is none.
func checkHTTP(address string) (string, error) {
	if address == httpOff {
		return "", nil
	}
	host, _, err := net.SplitHostPort(address)
	at, parse := netip.ParseAddr(host)
	if err != nil || host != "localhost" && (parse != nil || !at.IsLoopback()) {
		return "", usagef("--http %q: want host:port on loopback, or %s", address, httpOff).
			WithHint("`diapause gateway --listen` listens beyond loopback, with TLS")
	}
	return address, nil
}
