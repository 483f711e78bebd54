package client

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/ingress"
)

// Those of this machine may all, but for pages of other sites, which may lead here by a link alone.
func TestLoopback(t *testing.T) {
	const host = "80--web.acme.localhost:8443"
	for _, c := range []struct {
		from, method string
		headers      map[string]string
		want         bool
	}{
		{"127.0.0.1:1", "GET", nil, true},
		{"[::1]:1", "POST", nil, true},
		{"[::ffff:127.0.0.1]:1", "POST", nil, true},
		{"192.0.2.1:1", "GET", nil, false},
		{"127.0.0.1:1", "GET", map[string]string{"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}, true},
		{"127.0.0.1:1", "GET", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, true},
		{"127.0.0.1:1", "POST", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, false},
		{"127.0.0.1:1", "GET", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, true},
		{"127.0.0.1:1", "GET", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, false},
		{"127.0.0.1:1", "GET", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, false},
		{"127.0.0.1:1", "POST", map[string]string{"Sec-Fetch-Site": "same-site", "Origin": "http://80--other.acme.localhost:8443"}, false},
		{"127.0.0.1:1", "GET", map[string]string{"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "websocket", "Origin": "http://80--other.acme.localhost:8443"}, false},
		{"127.0.0.1:1", "GET", map[string]string{"Origin": "http://127.0.0.1:9999"}, false},
		{"127.0.0.1:1", "GET", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "websocket", "Origin": "http://evil.com"}, false},
		{"127.0.0.1:1", "POST", map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": "http://" + host}, true},
		{"127.0.0.1:1", "POST", map[string]string{"Sec-Fetch-Site": "same-site", "Origin": "http://3000--web.acme.localhost:8443"}, true},
		{"127.0.0.1:1", "POST", map[string]string{"Origin": "http://" + host}, true},
		{"127.0.0.1:1", "POST", map[string]string{"Origin": "http://evil.com"}, false},
		{"127.0.0.1:1", "GET", map[string]string{"Origin": "http://localhost.evil.com"}, false},
		{"127.0.0.1:1", "GET", map[string]string{"Origin": "null"}, false},
		{"127.0.0.1:1", "GET", map[string]string{"Origin": "http://%zz"}, false},
	} {
		r, err := http.NewRequest(c.method, "http://"+host+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range c.headers {
			r.Header.Set(key, value)
		}
		_, err = Loopback{ingress.DefaultDomain}.Authorize(t.Context(), ingress.Ask{Target: ingress.Target{Name: schemas.Name{Tenant: "acme", Session: "web"}, Port: 80}, From: netip.MustParseAddrPort(c.from), HTTP: r})
		if (err == nil) != c.want || err != nil && schemas.ReasonOf(err) != schemas.ReasonDenied {
			t.Errorf("%s from %s with %v: %v", c.method, c.from, c.headers, err)
		}
	}
}
