package main

import (
	"cmp"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/services/gateway"
	"github.com/diapause/diapause/services/ingress"
	"github.com/diapause/diapause/services/run"
)

// webFlags say how a gateway is seen from outside.
type webFlags struct {
	tls, cert, key string
	dir            string
	names          []string
	public         string
	proxies        []string
	domain         string
	to             portFlags
}

// portFlags say how requests for ports are led to sessions.
type portFlags struct {
	host    string
	budgets ingress.Budgets
}

func (f *portFlags) flags(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.host, "host-header", "", "`HOST` that sessions get in place of the client's, for servers that refuse names that they don't know, e.g. localhost:3000; or keep")
	durationVar(fl, &f.budgets.Wake, "wake-timeout", 0, "how long a request for a port waits until its session runs (default 1m)")
	durationVar(fl, &f.budgets.Connect, "connect-timeout", 0, "and then until the port listens (default 15s)")
	durationVar(fl, &f.budgets.FirstByte, "answer-timeout", 0, "and then until the answer begins (default 5m)")
}

// keepHost has sessions get the client's Host, as without --host-header.
const keepHost = "keep"

// hostHeader reads --host-header; "" keeps the client's.
func (f portFlags) hostHeader() (string, error) {
	if f.host == keepHost {
		return "", nil
	}
	if strings.ContainsAny(f.host, "/ \r\n\t") {
		return "", usagef("--host-header %q: want HOST, HOST:PORT or %s", f.host, keepHost)
	}
	return f.host, nil
}

const (
	// tlsSelf has the gateway make its certificate.
	tlsSelf = "self"
	// selfDir is where it is kept, below the data directory.
	selfDir = "https"
)

func (f *webFlags) flags(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.tls, "tls", "", "answer by HTTPS, with a certificate that is made here: self")
	fl.StringVar(&f.dir, "tls-dir", "", "`DIR` that the certificate of --tls self is kept in; of up https below --data, if none is named")
	fl.StringArrayVar(&f.names, "tls-name", nil, "make that certificate for this `NAME` or address, too, as *.acme.localhost for ports of the tenant acme")
	fl.StringVar(&f.cert, "tls-cert", "", "`FILE` with the certificate for HTTPS, and those between it and its authority; it is read again when it has changed")
	fl.StringVar(&f.key, "tls-key", "", "`FILE` with its key")
	fl.StringVar(&f.public, "public-url", "", "the `URL` by which browsers reach it, where a proxy ends TLS, e.g. https://gate.example.com; ports of sessions below --domain have its scheme and port")
	fl.StringSliceVar(&f.proxies, "trust-proxy", nil, "believe the proxies of this `NETWORK`, as 10.0.0.0/8, who asks and by which scheme (X-Forwarded-For, Forwarded, X-Forwarded-Proto)")
	fl.StringVar(&f.domain, "domain", ingress.DefaultDomain, "`NAME` below which ports of sessions have host names: one label each, for one wildcard certificate")
	f.to.flags(cmd)
}

// config reads the flags. data is the data directory, "" for a part that has none.
func (f webFlags) config(data string) (c run.WebConfig, err error) {
	c = run.WebConfig{TLS: run.TLSConfig{CertFile: f.cert, KeyFile: f.key, Names: f.names}, Public: f.public, Proxies: f.proxies}
	switch {
	case f.tls != "" && f.tls != tlsSelf:
		return c, usagef("--tls %q: want %s", f.tls, tlsSelf).WithHint("--tls-cert and --tls-key name a certificate that is there")
	case f.tls != "" && (f.cert != "" || f.key != ""):
		return c, usagef("--tls %s makes a certificate, and --tls-cert names one", tlsSelf)
	case (f.cert == "") != (f.key == ""):
		return c, usagef("TLS takes a certificate and its key").WithHint("name both --tls-cert and --tls-key")
	case f.tls == "" && (f.dir != "" || len(f.names) > 0):
		return c, usagef("--tls-dir and --tls-name are for --tls %s", tlsSelf)
	case f.tls != "" && f.dir == "" && data == "":
		return c, usagef("--tls %s: no directory is named", tlsSelf).WithHint("say with --tls-dir where the certificate is kept")
	case f.tls != "":
		c.TLS.SelfDir = cmp.Or(f.dir, filepath.Join(data, selfDir))
	}
	if c.Domain, err = domainOf(f.domain); err != nil {
		return c, err
	}
	c.Budgets = f.to.budgets
	if c.HostHeader, err = f.to.hostHeader(); err != nil {
		return c, err
	}
	if _, err := gateway.ParseOutside(c.Public, c.Proxies); err != nil {
		return c, usage(err)
	}
	return c, nil
}
