package ingress

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/diapause/diapause/schemas"
)

func name(tenant, id string) schemas.Name {
	return schemas.Name{Tenant: schemas.Tenant(tenant), Session: schemas.SessionID(id)}
}

func TestParse(t *testing.T) {
	web := Target{Name: name("acme", "web"), Port: 3000}
	inPath := Target{Name: name("acme", "Web_1"), Port: 80, Prefix: "/s/acme/Web_1/80"}
	long := strings.Repeat("a", 57)
	for _, c := range []struct {
		domain, host, path string
		want               Target
		err                error
	}{
		{"localhost", "3000--web.acme.localhost:8443", "/s/x/y/80/", web, nil},
		{"localhost", "3000--WEB.Acme.LocalHost.", "/", web, nil},
		{"localhost", "80--a--b.default.localhost", "/", Target{Name: name("default", "a--b"), Port: 80}, nil},
		{"localhost", "80--uid--u1.localhost", "/", Target{UID: "u1", Port: 80}, nil},
		{"localhost", "localhost:1", "/s/acme/Web_1/80", inPath, nil},
		{"localhost", "127.0.0.1:1", "/s/acme/Web_1/80/../x", inPath, nil},
		{"localhost", "[::1]:1", "/s/acme/Web_1/80/", inPath, nil},
		{"apps.example.com", "3000--web--acme.apps.example.com", "/", web, nil},
		{"apps.example.com", "3000--web.apps.example.com", "/", Target{Name: name("default", "web"), Port: 3000}, nil},
		{"apps.example.com", "apps.example.com", "/s/acme/Web_1/80/a", inPath, nil},

		{"localhost", "evil.example.com", "/s/acme/web/80/", Target{}, ErrHost},
		{"localhost", "3000--web.acme.localhost.evil.com", "/", Target{}, ErrHost},
		{"localhost", "xlocalhost", "/s/acme/web/80/", Target{}, ErrHost},
		{"localhost", "", "/s/acme/web/80/", Target{}, ErrHost},
		{"localhost", "web.acme.localhost", "/", Target{}, ErrHost},
		{"localhost", "0--web.acme.localhost", "/", Target{}, ErrHost},
		{"localhost", "080--web.acme.localhost", "/", Target{}, ErrHost},
		{"localhost", "65536--web.acme.localhost", "/", Target{}, ErrHost},
		{"localhost", "+80--web.acme.localhost", "/", Target{}, ErrHost},
		{"localhost", "80--web.a.b.localhost", "/", Target{}, ErrHost},
		{"localhost", "80--web.localhost", "/", Target{}, ErrHost},
		{"localhost", "80--.acme.localhost", "/", Target{}, ErrHost},
		{"localhost", "80--w%2fb.acme.localhost", "/", Target{}, ErrHost},
		{"apps.example.com", "80--web.acme.apps.example.com", "/", Target{}, ErrHost},
		{"apps.example.com", "80--web--default.apps.example.com", "/", Target{}, ErrHost},
		{"apps.example.com", "80--a_b.apps.example.com", "/", Target{}, ErrHost},
		{"apps.example.com", "80--" + long + ".apps.example.com", "/", Target{}, ErrHost},
		{"apps.example.com", "80--uid--a.b.apps.example.com", "/", Target{}, ErrHost},
		{"apps.example.com", "80--web.acme.localhost", "/", Target{}, ErrHost},

		{"localhost", "localhost", "/", Target{}, ErrPath},
		{"localhost", "localhost", "/s/acme/web", Target{}, ErrPath},
		{"localhost", "localhost", "/s/acme/we%62/80/", Target{}, ErrPath},
		{"localhost", "localhost", "/s/../web/80/", Target{}, ErrPath},
		{"localhost", "localhost", "//s/acme/web/80/", Target{}, ErrPath},
	} {
		if got, err := Parse(c.domain, c.host, c.path); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s of %s below %s: %+v, %v, want %+v, %v", c.path, c.host, c.domain, got, err, c.want, c.err)
		}
	}
}

// Each session has a host name of its own below each domain, which leads to it, and which DNS takes.
func TestHost(t *testing.T) {
	token := rapid.StringMatching(`[A-Za-z0-9_-]{1,64}|[a-z-]{1,4}|uid|default`)
	rapid.Check(t, func(t *rapid.T) {
		n, m := name(token.Draw(t, "tenant"), token.Draw(t, "id")), name(token.Draw(t, "tenant"), token.Draw(t, "id"))
		port := rapid.Uint16Min(1).Draw(t, "port")
		for _, domain := range []string{DefaultDomain, "apps.example.com"} {
			host := Host(domain, n, "5uid1", port)
			got, err := Parse(domain, host, "/")
			if err != nil || got.Port != port || got.Name != n && got != (Target{UID: "5uid1", Port: port}) {
				t.Fatalf("%s leads to %+v, %v", host, got, err)
			}
			if other := Host(domain, m, "5uid2", port); n != m && other == host {
				t.Fatalf("%s is the host of %s and of %s", host, n, m)
			}
			for label := range strings.SplitSeq(host, ".") {
				if len(label) > maxLabel || label != strings.ToLower(label) {
					t.Fatalf("%s isn't a host name", host)
				}
			}
		}
	})
}
