package gateway

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/diapause/diapause/schemas"
)

const foreign = "Origin: https://blog.example"

// Any page may say that it is visible, with a token that it knows; nothing else, and with nothing that a browser adds.
func TestPresence(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.answers("activity", func(a asked) (any, *schemas.APIError) {
		return schemas.View{Name: a.Name, State: schemas.Running}, nil
	})
	const beat = "/api/sessions/acme.web/heartbeat"
	r := b.do("OPTIONS", beat, "", "Authorization: ", foreign, "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization")
	if r.StatusCode != http.StatusNoContent || r.Header.Get("Access-Control-Allow-Origin") != "*" || r.Header.Get("Access-Control-Allow-Headers") != "Authorization" {
		t.Errorf("a preflight gives %d, %v", r.StatusCode, r.Header)
	}
	r = b.do("POST", beat, "", foreign, "Sec-Fetch-Site: cross-site")
	if r.StatusCode != http.StatusNoContent || r.Header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("a heartbeat gives %d, %v", r.StatusCode, r.Header)
	}
	if r.Header.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("with credentials: %v", r.Header)
	}
	for what, c := range map[string][]string{
		"without a token":           {"POST", beat, "Authorization: "},
		"with a cookie":             {"POST", beat, "Authorization: ", "Cookie: token=dpt_a"},
		"with a password":           {"POST", beat, "Authorization: Basic ZHB0X2E6"},
		"another verb":              {"POST", "/api/v1/sessions/acme.web/ensure"},
		"a path that looks like it": {"POST", "/api/sessions/acme.web/x/heartbeat"},
		"another method":            {"GET", beat},
		"a preflight of another":    {"OPTIONS", beat, "Access-Control-Request-Method: DELETE"},
		"a preflight elsewhere":     {"OPTIONS", "/api/v1/sessions/acme.web/ensure", "Access-Control-Request-Method: POST"},
	} {
		r := b.do(c[0], c[1], "", append(c[2:], foreign)...)
		if allow := r.Header.Get("Access-Control-Allow-Origin"); allow != "" {
			t.Errorf("%s: pages of %s may read the answer", what, allow)
		}
		b.refused(what, r, http.StatusForbidden)
	}
	b.refused("another host", b.do("POST", beat, "", foreign, "Host: blog.example"), http.StatusMisdirectedRequest)
}

func TestPresenceScript(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	r := b.do("GET", presencePath, "", "Authorization: ", "Sec-Fetch-Site: cross-site")
	if r.StatusCode != http.StatusOK || r.Header.Get("Cross-Origin-Resource-Policy") != "cross-origin" || r.Header.Get("Content-Type") != "text/javascript; charset=utf-8" {
		t.Errorf("%d, %v", r.StatusCode, r.Header)
	}
	if n := len(presenceScript); n > 2048 || !bytes.Contains(presenceScript, []byte("credentials: 'omit'")) {
		t.Errorf("it has %d bytes, of 2048 at most", n)
	}
}

// A page that a session serves says that it is visible by what its reader has for the port, on its own origin alone.
func TestPresenceOfAPort(t *testing.T) {
	t.Parallel()
	b, in := doorBench(t, nil)
	said, err := b.nc.SubscribeSync(schemas.SubjectActivity + ".>")
	b.must(err)
	b.must(b.nc.Flush())
	const sends = presenceHeader + ": visible"
	cookie := "Cookie: " + portCookie + "=" + secret("c")
	own := []string{web, "Authorization: ", cookie, sends, "Origin: http://80--web.acme.localhost:4280", "Sec-Fetch-Site: same-origin"}
	public := "Host: 82--web.acme.localhost:4280"
	for what, headers := range map[string][]string{
		"a page": own, "a program": {web, "Authorization: Bearer " + secret("a"), sends}, "by the uid": {"Host: 80--uid--u-web.localhost:4280", "Authorization: Bearer " + secret("a"), sends},
		"a page of a public port": {public, "Authorization: ", sends, "Origin: http://82--web.acme.localhost:4280", "Sec-Fetch-Site: same-origin"},
	} {
		r := b.do("POST", portHeartbeat, "", headers...)
		if r.StatusCode != http.StatusNoContent || r.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %d, %v", what, r.StatusCode, r.Header)
			continue
		}
		m, err := said.NextMsg(limit)
		b.must(err)
		if want := schemas.ActivitySubject(schemas.Name{Tenant: "acme", Session: "web"}, schemas.KindHeartbeat, ""); m.Subject != want {
			t.Errorf("%s: it says %s", what, m.Subject)
		}
	}
	for what, c := range map[string]struct {
		status  int
		headers []string
	}{
		"without a cookie":               {401, []string{web, "Authorization: ", sends}},
		"with the cookie of another":     {401, []string{web, "Authorization: ", sends, "Cookie: " + portCookie + "=" + secret("d")}},
		"with the token of another":      {403, []string{web, "Authorization: Bearer " + secret("o"), sends}},
		"without the header":             {403, []string{web, "Authorization: ", cookie}},
		"a page of another session":      {403, []string{web, "Authorization: ", cookie, sends, "Origin: http://80--db.acme.localhost:4280"}},
		"a page of another port":         {403, []string{web, "Authorization: ", cookie, sends, "Origin: http://81--web.acme.localhost:4280"}},
		"a page of the gateway":          {403, []string{web, "Authorization: ", cookie, sends, "Origin: http://localhost:4280"}},
		"a page of another scheme":       {403, []string{web, "Authorization: ", cookie, sends, "Origin: https://80--web.acme.localhost:4280"}},
		"a page of the same site":        {403, []string{web, "Authorization: ", cookie, sends, "Sec-Fetch-Site: same-site"}},
		"another site, by a public port": {403, []string{public, "Authorization: ", sends, foreign}},
	} {
		b.refused(what, b.do("POST", portHeartbeat, "", c.headers...), c.status)
	}
	b.refused("a preflight", b.do("OPTIONS", portHeartbeat, "", web, foreign, "Authorization: ", "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: "+presenceHeader), http.StatusMethodNotAllowed)
	b.refused("a link", b.do("GET", portHeartbeat, "", own...), http.StatusMethodNotAllowed)
	r := b.do("GET", portPresence, "", web, "Authorization: ")
	if r.StatusCode != http.StatusOK || r.Header.Get("Cross-Origin-Resource-Policy") != "same-origin" || readAll(b, r) != string(presenceScript) {
		t.Errorf("the script: %d, %v", r.StatusCode, r.Header)
	}
	if in.used.Load() != 0 {
		t.Error("the session was used")
	}
	if n, _, err := said.Pending(); n != 0 || err != nil {
		t.Errorf("%d more are said, %v", n, err)
	}
}
