package run

import (
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/certificate"
	"github.com/diapause/diapause/services/ingress"
)

// WebConfig is how a gateway is seen from outside.
type WebConfig struct {
	TLS     TLSConfig
	Public  string   // the URL by which browsers reach it, where a proxy ends TLS
	Proxies []string // networks or addresses of proxies that say who asks
	Domain  string   // below which ports of sessions have host names; ingress.DefaultDomain if empty

	HostHeader string          // what sessions get as Host; the client's own if empty
	Budgets    ingress.Budgets // of requests for ports of sessions
}

// TLSConfig is the certificate of a gateway; it has no TLS if nothing is said.
type TLSConfig struct {
	CertFile string // of an authority
	KeyFile  string
	SelfDir  string   // where the certificate is kept that the gateway makes itself; it makes none if empty
	Names    []string // that one is for these, too
}

// localNames are the names by which a gateway is reached on its own machine. A wildcard is for one label: ports of
// sessions of other tenants than the default one have more.
var localNames = []string{"localhost", "*." + ingress.DefaultDomain, "*." + string(schemas.DefaultTenant) + "." + ingress.DefaultDomain, "127.0.0.1", "::1"}

// open reads or makes the certificate of a gateway that listens at an address; nil if it has no TLS.
func (c WebConfig) open(address string, hosts []string, log *slog.Logger) (*certificate.Source, error) {
	t := c.TLS
	if t.CertFile == "" && t.KeyFile == "" && t.SelfDir == "" {
		return nil, nil
	}
	o := certificate.Options{CertFile: t.CertFile, KeyFile: t.KeyFile, Dir: t.SelfDir, Log: log}
	o.Names = append(append(append(o.Names, localNames...), hosts...), t.Names...)
	if c.Domain != "" && c.Domain != ingress.DefaultDomain {
		o.Names = append(o.Names, c.Domain, "*."+c.Domain)
	}
	if host, _, err := net.SplitHostPort(address); err == nil && host != "" {
		if a, err := netip.ParseAddr(host); err != nil || !a.IsUnspecified() {
			o.Names = append(o.Names, host)
		}
	}
	slices.Sort(o.Names) // so that the order of flags makes no other certificate
	o.Names = slices.Compact(o.Names)
	return certificate.Open(o)
}

// configOf is what a listener takes; nil without TLS.
func configOf(s *certificate.Source) *tls.Config {
	if s == nil {
		return nil
	}
	return s.Config()
}

// sayTrust says how clients trust a certificate that was made here.
func sayTrust(out io.Writer, s *certificate.Source) {
	if s == nil || s.Trust() == "" {
		return
	}
	leaf := s.Leaf()
	fmt.Fprintf(out, "TLS: a certificate of its own, valid until %s; clients trust it by %s (curl --cacert)\nSHA-256 %s\n",
		leaf.NotAfter.Format(time.DateOnly), s.Trust(), certificate.Fingerprint(leaf))
}
