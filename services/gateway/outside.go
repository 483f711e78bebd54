package gateway

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Outside is how clients see a gateway that proxies are before. The zero value is one that they reach directly.
type Outside struct {
	public  *url.URL // nil if it is what requests name
	proxies []netip.Prefix
}

// ParseOutside reads the URL that browsers know, "" for none, and the networks or addresses of proxies that are believed.
func ParseOutside(public string, proxies []string) (o Outside, err error) {
	if public != "" {
		u, err := url.Parse(strings.TrimSuffix(public, "/"))
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || strings.Contains(u.Host, "*") || u.Scheme+"://"+u.Host != u.String() {
			return o, fmt.Errorf("public URL %q: want one such as https://gate.example.com", public)
		}
		if u.Port() == map[string]string{"http": "80", "https": "443"}[u.Scheme] {
			u.Host = strings.TrimSuffix(u.Host, ":"+u.Port())
		}
		u.Host = strings.ToLower(u.Host)
		o.public = u
	}
	for _, text := range proxies {
		p, err := netip.ParsePrefix(text)
		if a, single := netip.ParseAddr(text); err != nil && single == nil {
			p, err = a.Unmap().Prefix(a.Unmap().BitLen())
		}
		if err != nil {
			return o, fmt.Errorf("proxy %q: want a network such as 10.0.0.0/8, or an address", text)
		}
		o.proxies = append(o.proxies, p.Masked())
	}
	return o, nil
}

// URL is where browsers reach the gateway; "" if that isn't known.
func (o Outside) URL() string {
	if o.public == nil {
		return ""
	}
	return o.public.String()
}

// through has next see requests as their clients have sent them: from the client's address, with TLS where the client used
// it, and for the host that the client named.
func (o Outside) through(domain string, a *allowed, next http.Handler) http.Handler {
	if o.public == nil && len(o.proxies) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(r.Context()) // a copy
		secure := r.TLS != nil
		if peer, err := netip.ParseAddrPort(r.RemoteAddr); err == nil && o.believed(peer.Addr()) {
			from, scheme := o.client(peer.Addr(), r.Header)
			if from != peer.Addr() {
				r.RemoteAddr = netip.AddrPortFrom(from, 0).String()
			}
			secure = secure || scheme == "https"
		}
		if host, ok := o.named(domain, a, r); ok {
			r.Host, secure = host, secure || o.public.Scheme == "https"
		}
		if secure && r.TLS == nil {
			r.TLS = &tls.ConnectionState{} // between the client and a proxy
		}
		next.ServeHTTP(w, r)
	})
}

// named gives the host of a request that has come by the public URL, or is for a port below a domain that is reached the
// same way, with the port that browsers know. Proxies drop that, and some name the gateway's address.
func (o Outside) named(domain string, a *allowed, r *http.Request) (string, bool) {
	if o.public == nil {
		return "", false
	}
	name, public := hostName(r.Host), o.public.Hostname()
	switch {
	case name == public:
	case strings.HasSuffix(name, ".localhost"):
		return "", false // of this machine
	case domain != "" && strings.HasSuffix(name, "."+domain):
		public = name
	case !a.addressed(r.Host) || !strings.EqualFold(r.Header.Get("Origin"), o.public.String()):
		return "", false
	}
	if port := o.public.Port(); port != "" {
		return net.JoinHostPort(public, port), true
	}
	return public, true
}

func (o Outside) believed(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(o.proxies, func(p netip.Prefix) bool { return p.Contains(a) })
}

// client gives the address of the client that proxies speak for, and the scheme that it used, "" if they don't say. A proxy
// that is believed may hand on a header of the client's that it doesn't know: where the two that name addresses disagree,
// neither is believed.
func (o Outside) client(peer netip.Addr, h http.Header) (netip.Addr, string) {
	xff, forwarded := hopsOf(h.Values("X-Forwarded-For")), hopsForwarded(h.Values("Forwarded"))
	from, depth, _ := o.follow(peer, xff)
	if len(xff) == 0 {
		depth = 1
	}
	scheme := ""
	if all := listed(h.Values("X-Forwarded-Proto")); len(all) > 0 {
		scheme = strings.ToLower(all[max(len(all)-max(depth, 1), 0)])
	}
	if len(forwarded) == 0 {
		return from, scheme
	}
	other, _, proto := o.follow(peer, forwarded)
	if len(xff) > 0 && other != from {
		return peer, ""
	}
	if scheme == "" {
		scheme = proto
	}
	return other, scheme
}

// hop is what a proxy says of who has sent it a request.
type hop struct {
	from   netip.Addr // not valid if it isn't an address
	scheme string
}

// follow goes from the last proxy back to the last address that isn't one of a proxy that is believed. It goes no
// further than to what is an address. depth is how many hops that is.
func (o Outside) follow(peer netip.Addr, hops []hop) (from netip.Addr, depth int, scheme string) {
	from = peer
	for _, h := range slices.Backward(hops) {
		if !o.believed(from) || !h.from.IsValid() {
			break
		}
		from, scheme = h.from, h.scheme
		depth++
	}
	return from, depth, scheme
}

// listed gives the elements of the lists in a header's values.
func listed(values []string) (all []string) {
	for _, value := range values {
		for one := range strings.SplitSeq(value, ",") {
			all = append(all, strings.TrimSpace(one))
		}
	}
	return all
}

func hopsOf(values []string) (all []hop) {
	for _, one := range listed(values) {
		all = append(all, hop{from: addressOf(one)})
	}
	return all
}

// hopsForwarded reads Forwarded (RFC 7239). Its strings have neither commas nor semicolons where they are addresses.
func hopsForwarded(values []string) (all []hop) {
	for _, one := range listed(values) {
		var h hop
		for pair := range strings.SplitSeq(one, ";") {
			key, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
			value = strings.Trim(value, `"`)
			switch strings.ToLower(key) {
			case "for":
				h.from = addressOf(value)
			case "proto":
				h.scheme = strings.ToLower(value)
			}
		}
		all = append(all, h)
	}
	return all
}

// addressOf reads an address, also one with a port; it isn't valid if the text is none.
func addressOf(text string) netip.Addr {
	if at, err := netip.ParseAddrPort(text); err == nil {
		return at.Addr().Unmap().WithZone("")
	}
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap().WithZone("")
}
