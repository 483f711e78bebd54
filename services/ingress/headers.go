package ingress

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
)

// ours begins the names of our own headers and cookies; with the prefixes that browsers enforce, too.
const ours = "diapause"

// fromOutside are headers in which a client could claim what a session takes for ours. All that begin with
// X-Forwarded- are dropped besides.
var fromOutside = []string{"Forwarded", "X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "True-Client-Ip", "X-Original-Url", "X-Rewrite-Url"}

// rewrite makes the request that the session gets.
func (p *Proxy) rewrite(pr *httputil.ProxyRequest) {
	v, out := visitOf(pr.In.Context()), pr.Out
	out.URL.Scheme, out.URL.Host = "http", address(v.target)
	out.URL.RawQuery = pr.In.URL.RawQuery // as it was sent: nothing here goes by it
	out.Trailer = pr.In.Trailer           // which the server fills when it has read the body
	out.Host = pr.In.Host
	if p.HostHeader != "" {
		out.Host = p.HostHeader
	}
	for key := range out.Header {
		if is := dashed(key); strings.HasPrefix(is, "X-Forwarded-") || slices.Contains(fromOutside, is) {
			delete(out.Header, key)
		}
	}
	dropOurs(out.Header)
	if upgradesTo(out.Header, "h2c") { // which would carry requests past all this
		out.Header.Del("Connection")
		out.Header.Del("Upgrade")
		out.Header.Del("Http2-Settings")
	}
	if v.strip != nil {
		v.strip(out.Header)
	}
	dropCookies(out.Header, v.target.Prefix != "")
	pr.SetXForwarded()
	if prefix := v.target.Prefix; prefix != "" {
		out.Header.Set("X-Forwarded-Prefix", prefix)
		withoutPrefix(out.URL, prefix)
	}
}

// dropOurs takes headers with our names, which are for us or by us alone.
func dropOurs(h http.Header) {
	for key := range h {
		if strings.HasPrefix(strings.TrimPrefix(strings.ToLower(dashed(key)), "x-"), ours+"-") {
			delete(h, key)
		}
	}
}

// dashed is a header's name as CGI servers take it, to which X_Forwarded_For is X-Forwarded-For.
func dashed(key string) string { return http.CanonicalHeaderKey(strings.ReplaceAll(key, "_", "-")) }

// withoutPrefix takes the path form's beginning from a path.
func withoutPrefix(u *url.URL, prefix string) {
	rest := strings.TrimPrefix(u.EscapedPath(), prefix)
	if !strings.HasPrefix(rest, "/") {
		rest = "/" + rest
	}
	if path, err := url.PathUnescape(rest); err == nil { // it was valid as a part of the whole
		u.Path, u.RawPath = path, rest
	}
}

// dropCookies takes our cookies, or all, from a request.
func dropCookies(h http.Header, all bool) {
	var kept []string
	for _, line := range h.Values("Cookie") {
		for one := range strings.SplitSeq(line, ";") {
			if one = strings.TrimSpace(one); one != "" && !all && !ourCookie(one) {
				kept = append(kept, one)
			}
		}
	}
	if h.Del("Cookie"); len(kept) > 0 {
		h.Set("Cookie", strings.Join(kept, "; "))
	}
}

// ourCookie reports whether NAME=VALUE is a cookie of ours.
func ourCookie(pair string) bool {
	name := strings.ToLower(pair)
	for _, prefix := range []string{"__host-", "__secure-"} {
		name = strings.TrimPrefix(name, prefix)
	}
	return strings.HasPrefix(name, ours)
}

// beyond are headers by which an answer says something of more than its own origin: of the cookies of all hosts of a site,
// of the scheme of a host with all its ports, of where else it is reached. ofOrigin say something of all of their origin.
var (
	beyond   = []string{"Clear-Site-Data", "Strict-Transport-Security", "Alt-Svc"}
	ofOrigin = []string{"Nel", "Report-To", "Reporting-Endpoints", "Service-Worker-Allowed", "Origin-Agent-Cluster"}
)

// modify changes what a session answers: its cookies are its own origin's, and in the path form, which is no
// origin of its own, it has none and no page runs with the rights of that host.
func (p *Proxy) modify(answer *http.Response) error {
	v := visitOf(answer.Request.Context())
	dropOurs(answer.Header)
	v.times.tell(answer.Header)
	for _, key := range beyond {
		answer.Header.Del(key)
	}
	cookies := answer.Header.Values("Set-Cookie")
	answer.Header.Del("Set-Cookie")
	if v.target.Prefix != "" {
		for _, key := range ofOrigin {
			answer.Header.Del(key)
		}
		answer.Header.Add("Content-Security-Policy", "sandbox")
		answer.Header.Set("X-Content-Type-Options", "nosniff")
		if to := answer.Header.Get("Location"); strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "//") {
			answer.Header.Set("Location", v.target.Prefix+to)
		}
		return nil
	}
	for _, c := range cookies {
		if !ourCookie(strings.TrimSpace(c)) {
			answer.Header.Add("Set-Cookie", withoutDomain(c))
		}
	}
	return nil
}

// withoutDomain takes the Domain from a Set-Cookie: other sessions' host names are below the same one.
func withoutDomain(c string) string {
	parts := strings.Split(c, ";")
	kept := parts[:1]
	for _, attribute := range parts[1:] {
		name, _, _ := strings.Cut(attribute, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "domain") {
			kept = append(kept, attribute)
		}
	}
	return strings.Join(kept, ";")
}
